"""A small racing game in a window of its own, for `--game=sandbox/racer.yaml`.

Left and right steer; cars come from above, faster and faster. Each car that is passed is a point,
which the game draws as a number. A crash ends the game; the space bar begins the next.
"""

import random

import pygame

WIDTH, HEIGHT, LANES, CAR = 200, 240, 5, 36
LINE = 24  # for the score
ROAD, MINE, OTHER, CRASHED = (50, 50, 50), (80, 220, 100), (230, 80, 80), (90, 0, 120)


class Game:
    """One race after the other."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begins a race."""
        self.x, self.score, self.crashed = WIDTH / 2 - CAR / 2, 0, False
        self.cars: list[list[float]] = []

    def move(self, keys: pygame.key.ScancodeWrapper) -> None:
        """Goes on by a frame of a thirtieth of a second."""
        self.x += 5 * (int(keys[pygame.K_RIGHT]) - int(keys[pygame.K_LEFT]))
        self.x = min(max(0, self.x), WIDTH - CAR)
        if not self.cars or self.cars[-1][1] > LINE + 2.2 * CAR:
            self.cars.append([random.randrange(LANES) * WIDTH / LANES, float(LINE)])
        for car in self.cars:
            car[1] += min(3 + self.score / 20, 8)
        mine = pygame.Rect(self.x + 4, HEIGHT - CAR, CAR - 8, CAR - 4)
        self.crashed = any(mine.colliderect((x + 4, y, CAR - 8, CAR - 4)) for x, y in self.cars)
        self.score += sum(y >= HEIGHT for _, y in self.cars)
        self.cars = [car for car in self.cars if car[1] < HEIGHT]

    def draw(self, screen: pygame.Surface, font: pygame.font.Font) -> None:
        """Shows it."""
        screen.fill(CRASHED if self.crashed else ROAD)
        for x, y in self.cars:
            pygame.draw.rect(screen, OTHER, (x + 4, y, CAR - 8, CAR - 4))
        pygame.draw.rect(screen, MINE, (self.x + 4, HEIGHT - CAR, CAR - 8, CAR - 4))
        pygame.draw.rect(screen, (0, 0, 0), (0, 0, WIDTH, LINE))
        screen.blit(font.render(" ".join(str(self.score)), False, (255, 255, 255)), (6, 4))


def main() -> None:
    """Plays until the window is closed."""
    pygame.display.init()
    pygame.font.init()
    screen = pygame.display.set_mode((WIDTH, HEIGHT), pygame.NOFRAME)
    font, clock, game = pygame.font.Font(None, 24), pygame.time.Clock(), Game()
    while pygame.event.peek(pygame.QUIT) is False:
        for event in pygame.event.get():
            if event.type == pygame.KEYDOWN and event.key == pygame.K_SPACE and game.crashed:
                game.begin()
        if not game.crashed:
            game.move(pygame.key.get_pressed())
        game.draw(screen, font)
        pygame.display.flip()
        clock.tick(30)


def is_over(picture) -> bool:
    """Whether a picture of the game is one of a crash, as its colour shows."""
    return tuple(picture[LINE + 2, 1]) == CRASHED


if __name__ == "__main__":
    main()
