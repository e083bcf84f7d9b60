"""A program in a window that counts frames, and hangs once the key h is pressed."""

import time

import pygame


def main() -> None:
    """Draws frame after frame."""
    pygame.display.init()
    screen = pygame.display.set_mode((80, 40), pygame.NOFRAME)
    frame = 0
    while True:
        for event in pygame.event.get():
            if event.type == pygame.KEYDOWN and event.key == pygame.K_h:
                time.sleep(3600)
        frame += 1
        screen.fill((frame % 250, 100, 100))
        pygame.display.flip()
        time.sleep(0.05)


def score(picture) -> float | None:
    """Nothing to be won, once it draws."""
    return 0.0 if picture[20, 20, 1] == 100 else None


if __name__ == "__main__":
    main()
