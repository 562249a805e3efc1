"""A gRPC server that describes itself, by grpcio-reflection. Prints its port when it listens."""

import os
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, timestamp_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

FILE = text_format.Parse(
    """
    name: "demo/greeter.proto" package: "demo" syntax: "proto3"
    dependency: "google/protobuf/timestamp.proto"
    enum_type { name: "Mood" value { name: "CALM" number: 0 } value { name: "LOUD" number: 1 } }
    message_type {
      name: "Person"
      field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL json_name: "name" }
      field { name: "best_friend" number: 2 type: TYPE_MESSAGE type_name: ".demo.Person" label: LABEL_OPTIONAL json_name: "bestFriend" }
    }
    message_type {
      name: "HelloRequest"
      field { name: "person" number: 1 type: TYPE_MESSAGE type_name: ".demo.Person" label: LABEL_OPTIONAL json_name: "person" }
      field { name: "mood" number: 2 type: TYPE_ENUM type_name: ".demo.Mood" label: LABEL_OPTIONAL json_name: "mood" }
      field { name: "times" number: 3 type: TYPE_INT64 label: LABEL_OPTIONAL json_name: "times" }
      field { name: "since" number: 4 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp" label: LABEL_OPTIONAL json_name: "since" }
    }
    message_type {
      name: "HelloReply"
      field { name: "words" number: 1 type: TYPE_STRING label: LABEL_REPEATED json_name: "words" }
    }
    service {
      name: "Greeter"
      method { name: "SayHello" input_type: ".demo.HelloRequest" output_type: ".demo.HelloReply" }
      method { name: "Chat" input_type: ".demo.HelloRequest" output_type: ".demo.HelloReply" server_streaming: true }
    }
    """,
    descriptor_pb2.FileDescriptorProto(),
)
assert timestamp_pb2.DESCRIPTOR
pool = descriptor_pool.Default()
pool.Add(FILE)
Request = message_factory.GetMessageClass(pool.FindMessageTypeByName("demo.HelloRequest"))
Reply = message_factory.GetMessageClass(pool.FindMessageTypeByName("demo.HelloReply"))


def say_hello(request, context):
    if not request.person.name:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "who are you?")
    word = "HELLO" if request.mood == 1 else "hello"
    friend = request.person.best_friend.name
    return Reply(words=[f"{word} {request.person.name}"] * max(1, request.times) + ([f"and {friend}"] if friend else []))


def chat(request, context):
    yield Reply(words=["hello"])


handlers = {
    "SayHello": grpc.unary_unary_rpc_method_handler(say_hello, Request.FromString, Reply.SerializeToString),
    "Chat": grpc.unary_stream_rpc_method_handler(chat, Request.FromString, Reply.SerializeToString),
}
server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("demo.Greeter", handlers),))
health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
names = ("demo.Greeter", health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
reflection.enable_server_reflection(names, server)
listen = os.environ.get("LISTEN", "127.0.0.1:0")
if "TLS" in os.environ:
    authority, certificate, key = (open(f"{os.environ['TLS']}/{name}", "rb").read() for name in ("ca.pem", "server.pem", "server.key"))
    credentials = grpc.ssl_server_credentials([(key, certificate)], root_certificates=authority, require_client_auth=True)
    port = server.add_secure_port(listen, credentials)
else:
    port = server.add_insecure_port(listen)
server.start()
print(port, flush=True)
server.wait_for_termination()
