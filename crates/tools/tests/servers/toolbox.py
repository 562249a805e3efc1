"""A gRPC server of Omnia's own contract for tools, by grpcio. It describes itself to nobody. Prints its port when it listens."""

import json
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

FILE = text_format.Parse(
    """
    name: "omnia/tools/v1/tools.proto" package: "omnia.tools.v1" syntax: "proto3"
    message_type {
      name: "ToolRequest"
      field { name: "tool_name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "arguments_json" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "metadata" number: 3 type: TYPE_MESSAGE type_name: ".omnia.tools.v1.ToolRequest.MetadataEntry" label: LABEL_REPEATED }
      nested_type {
        name: "MetadataEntry"
        field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
        field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
        options { map_entry: true }
      }
    }
    message_type {
      name: "ToolResponse"
      field { name: "result_json" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "is_error" number: 2 type: TYPE_BOOL label: LABEL_OPTIONAL }
      field { name: "error_message" number: 3 type: TYPE_STRING label: LABEL_OPTIONAL }
    }
    """,
    descriptor_pb2.FileDescriptorProto(),
)
pool = descriptor_pool.Default()
pool.Add(FILE)
Request = message_factory.GetMessageClass(pool.FindMessageTypeByName("omnia.tools.v1.ToolRequest"))
Response = message_factory.GetMessageClass(pool.FindMessageTypeByName("omnia.tools.v1.ToolResponse"))


def execute(request, context):
    if request.tool_name != "divide":
        context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {request.tool_name}")
    arguments = json.loads(request.arguments_json)
    if arguments["by"] == 0:
        return Response(is_error=True, error_message="cannot divide by zero")
    return Response(result_json=json.dumps({"quotient": arguments["number"] / arguments["by"]}))


handlers = {"Execute": grpc.unary_unary_rpc_method_handler(execute, Request.FromString, Response.SerializeToString)}
server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("omnia.tools.v1.ToolService", handlers),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
