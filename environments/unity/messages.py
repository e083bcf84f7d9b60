"""The messages of ML-Agents' gRPC protocol, as far as they are used here.

They are described by type, name and number; types and numbers are what counts on the wire. Fields
that are not here are skipped.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "communicator_objects"
SERVICE = f"{PACKAGE}.UnityToExternalProto"
METHOD = "Exchange"
# Enumerations travel like int32. An entry is one of a map.
_FIELDS = """
Message
  Header header 1; Output unity_output 2; Input unity_input 3
Header
  int32 status 1; string message 2
Output
  RlOutput rl_output 1; InitOutput rl_initialization_output 2
Input
  RlInput rl_input 1; InitInput rl_initialization_input 2
InitOutput
  string communication_version 2; Brain* brain_parameters 5
InitInput
  int32 seed 1; string communication_version 2; string package_version 3
  Able capabilities 4; int32 num_areas 5
Able
  bool base 1; bool variable_length 6; bool groups 7
Brain
  int32* old_action_sizes 3; int32 old_action_type 6; string brain_name 7; Does action_spec 9
Does
  int32 num_continuous_actions 1; int32 num_discrete_actions 2; int32* discrete_branch_sizes 3
RlOutput
  InfosEntry* agent_infos 2
InfosEntry
  string key 1; Infos value 2
Infos
  Info* value 1
Info
  float reward 7; bool done 8; bool max_step_reached 9; int32 id 10
  Observation* observations 13; float group_reward 15
Observation
  int32* shape 1; Floats float_data 4
Floats
  float* data 1
RlInput
  ActionsEntry* agent_actions 1; int32 command 4; bytes side_channel 5
ActionsEntry
  string key 1; Actions value 2
Actions
  Action* value 1
Action
  float* old_actions 1; float* continuous_actions 6; int32* discrete_actions 7
"""
STEP, RESET = 0, 1  # commands
GOES_ON, ENDS = 200, 400  # status


def _made() -> dict[str, Any]:
    """A class for each message."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="unity.proto", package=PACKAGE, syntax="proto3")
    message = None
    for line in _FIELDS.strip().splitlines():
        if not line.startswith(" "):
            message = file.message_type.add(name=line)
            continue
        for one in line.strip().split("; "):
            assert message
            kind, name, number = one.split()
            plain = kind.rstrip("*")
            added = message.field.add(name=name, number=int(number))
            added.label = field.LABEL_OPTIONAL if plain == kind else field.LABEL_REPEATED
            if plain[0].islower():
                added.type = getattr(field, f"TYPE_{plain.upper()}")
            else:
                added.type, added.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{plain}"
    # A pool of our own: ML-Agents' package may be in the same process.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    types = pool.FindFileByName("unity.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(told) for name, told in types.items()}


_classes = _made()
Message, Action = _classes["Message"], _classes["Action"]
