"""A small shop, as FastAPI describes it. Prints its port when it listens."""

import os
import socket
from typing import Annotated, Optional

import uvicorn
from fastapi import FastAPI, Header, HTTPException, Query
from pydantic import BaseModel

app = FastAPI(title="Shop", version="1.0.0")


class Pet(BaseModel):
    """A pet, which may have a parent, which is a pet."""

    name: str
    age: Optional[int] = None
    parent: Optional["Pet"] = None


@app.get("/pets/{pet_id}")
def read_pet(
    pet_id: int,
    tags: Annotated[list[str], Query()] = [],
    x_trace: Annotated[Optional[str], Header()] = None,
):
    """Reads one pet."""
    if pet_id == 404:
        raise HTTPException(404, "no such pet")
    return {"id": pet_id, "tags": tags, "trace": x_trace}


@app.put("/pets/{pet_id}")
def write_pet(pet_id: int, pet: Pet) -> Pet:
    """Writes one pet."""
    return pet


if __name__ == "__main__":
    host, port = os.environ.get("LISTEN", "127.0.0.1:0").split(":")
    listener = socket.socket()
    listener.bind((host, int(port)))
    listener.listen(128)
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
