"""The usual way, as a measure: a FastAPI route with pydantic models that predicts nothing.

Its body and its answer are those of our POST /predict for one row of the stream `agrawal`.

uvicorn benchmarks.noop_api:app --loop uvloop --http httptools
"""

# Annotations as values, not as texts: FastAPI reads them.
from fastapi import FastAPI
from pydantic import BaseModel


class Features(BaseModel):
    """The features of `agrawal`."""

    salary: float
    commission: float
    age: float
    elevel: str
    car: str
    zipcode: str
    hvalue: float
    hyears: float
    loan: float


class Body(BaseModel):
    """One row."""

    features: Features


class ClassProbability(BaseModel):
    """One class and its probability."""

    label: str
    probability: float


class Answer(BaseModel):
    """What our route answers."""

    label: str
    leaf: int
    probabilities: list[ClassProbability]
    snapshot: str


app = FastAPI()


@app.post("/predict")
async def predict(body: Body) -> Answer:  # noqa: ARG001 (that it is read is the point)
    """Answer the same to everybody."""
    chances = [
        ClassProbability(label="A", probability=0.75),
        ClassProbability(label="B", probability=0.25),
    ]
    return Answer(label="A", leaf=12, probabilities=chances, snapshot="vfdt-200000")
