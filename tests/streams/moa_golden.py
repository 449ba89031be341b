"""Digests of MOA's own rows, taken by running MOA 24.07 with Java 17.

Each line: MOA's command line, our stream and options, how many rows, and the first 32 hex digits
of the sha256 over the rows as little-endian doubles, nominal values as codes, the class last.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Golden(NamedTuple):
    """What MOA gave for one command line."""

    moa: str
    stream: str
    options: dict[str, Any]
    rows: int
    digest: str


def _nested(width: int, position: int, *generators: str) -> str:
    """MOA's command line for concepts that follow one another."""
    if len(generators) == 1:
        return generators[0]
    rest = _nested(width, position, *generators[1:])
    return f"ConceptDriftStream -s ({generators[0]}) -d ({rest}) -w {width} -p {position}"


_LED = tuple(f"generators.LEDGeneratorDrift -d {d}" for d in (1, 3, 5, 7))
_AGRAWAL = tuple(f"generators.AgrawalGenerator -b{f}" for f in (" -f 1", " -f 2", "", " -f 4"))

GOLDEN = (
    Golden(
        "generators.SEAGenerator -f 1",
        "sea",
        {"function": 1},
        2_000,
        "23cfed974c05ab9e8b6f2da8bfc5d56d",
    ),
    Golden(
        "generators.SEAGenerator -f 1 -b -i 7 -p 25",
        "sea",
        {"function": 1, "balance": True, "seed": 7, "noise": 0.25},
        2_000,
        "8436f4a0f9e8529a919ab5c1a63648eb",
    ),
    Golden(
        "generators.SEAGenerator -f 2",
        "sea",
        {"function": 2},
        2_000,
        "516ed26ab267c8cc0c2115ffc2227a85",
    ),
    Golden(
        "generators.SEAGenerator -f 2 -b -i 7 -p 25",
        "sea",
        {"function": 2, "balance": True, "seed": 7, "noise": 0.25},
        2_000,
        "015fcae4909bed898765a6acbe0aece2",
    ),
    Golden(
        "generators.SEAGenerator -f 3",
        "sea",
        {"function": 3},
        2_000,
        "9f7fedf5d5d0e69f907045c60e2b7b5c",
    ),
    Golden(
        "generators.SEAGenerator -f 3 -b -i 7 -p 25",
        "sea",
        {"function": 3, "balance": True, "seed": 7, "noise": 0.25},
        2_000,
        "e860c82feb42679fe3e44291da3e34cb",
    ),
    Golden(
        "generators.SEAGenerator -f 4",
        "sea",
        {"function": 4},
        2_000,
        "cd59cfeb0077bde617716149ea2aa12b",
    ),
    Golden(
        "generators.SEAGenerator -f 4 -b -i 7 -p 25",
        "sea",
        {"function": 4, "balance": True, "seed": 7, "noise": 0.25},
        2_000,
        "6528d71a1bb06463cd9f06014e685d99",
    ),
    Golden("generators.SEAGenerator -b", "sea_g", {}, 2_000, "62557b5832bac80127753f7fb4311db9"),
    Golden("generators.LEDGenerator", "led", {}, 2_000, "198765d7ca91e5caa90b1a3794701adc"),
    Golden(
        "generators.LEDGenerator -i 5 -n 20",
        "led",
        {"seed": 5, "noise": 0.2},
        2_000,
        "24c1725718446b815f5d61bb120539c0",
    ),
    Golden(
        "generators.LEDGeneratorDrift -d 1",
        "led",
        {"drift": 1},
        2_000,
        "1cff18bd6ec799b1e319f90919dafa8d",
    ),
    Golden(
        "generators.LEDGeneratorDrift -d 4 -i 9",
        "led",
        {"drift": 4, "seed": 9},
        2_000,
        "f0930ef1a5df3b08fc8d5156665d1ca6",
    ),
    Golden(
        "generators.LEDGeneratorDrift -d 7",
        "led",
        {"drift": 7},
        2_000,
        "581ce3df55b5bcc6a78a0dcf2451118e",
    ),
    Golden(
        _nested(50_000, 250_000, *_LED), "led_g", {}, 300_000, "da15d39a8a585fcdcdb7a65ef8ef0529"
    ),
    Golden(
        _nested(500, 2_500, *_LED),
        "led_g",
        {"position": 2500, "width": 500},
        12_000,
        "90899fa0a68fb2209221dcea663eab85",
    ),
    Golden(
        "generators.AgrawalGenerator -f 1",
        "agrawal",
        {"function": 1},
        2_000,
        "77f120ba2f9292d76bc174af6dea55fc",
    ),
    Golden(
        "generators.AgrawalGenerator -f 1 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 1, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "220f7f218a910fd435a2aabfc8579aff",
    ),
    Golden(
        "generators.AgrawalGenerator -f 2",
        "agrawal",
        {"function": 2},
        2_000,
        "a86e0488132238fd1b5640bad4a54799",
    ),
    Golden(
        "generators.AgrawalGenerator -f 2 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 2, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "0dc56ecb455e22a9589c30cd0316c761",
    ),
    Golden(
        "generators.AgrawalGenerator -f 3",
        "agrawal",
        {"function": 3},
        2_000,
        "a7877bb38607f18ab986e1e1a4248c13",
    ),
    Golden(
        "generators.AgrawalGenerator -f 3 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 3, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "d2256ed993800575a06dab06ca0ed987",
    ),
    Golden(
        "generators.AgrawalGenerator -f 4",
        "agrawal",
        {"function": 4},
        2_000,
        "a2f5bb651dc0c0a2b4ea3a0fa2dbf52f",
    ),
    Golden(
        "generators.AgrawalGenerator -f 4 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 4, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "4355cb44fa20839828d21d3248d7724e",
    ),
    Golden(
        "generators.AgrawalGenerator -f 5",
        "agrawal",
        {"function": 5},
        2_000,
        "27350d889c09a928269166c0276f8b16",
    ),
    Golden(
        "generators.AgrawalGenerator -f 5 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 5, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "b00a138dc689e4975a2b42de531880b4",
    ),
    Golden(
        "generators.AgrawalGenerator -f 6",
        "agrawal",
        {"function": 6},
        2_000,
        "932660a331e7cef561d8befe6e47eace",
    ),
    Golden(
        "generators.AgrawalGenerator -f 6 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 6, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "fd0dc9edc5593a5119f9ddd5542a7994",
    ),
    Golden(
        "generators.AgrawalGenerator -f 7",
        "agrawal",
        {"function": 7},
        2_000,
        "ae7be8601bd128038411b4f127260616",
    ),
    Golden(
        "generators.AgrawalGenerator -f 7 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 7, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "d2177a6fc139e1cb67481833eef5ce1b",
    ),
    Golden(
        "generators.AgrawalGenerator -f 8",
        "agrawal",
        {"function": 8},
        2_000,
        "816a9b6945f12349ed7ff1825b786c94",
    ),
    Golden(
        "generators.AgrawalGenerator -f 8 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 8, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "55ae806251849c957838a2bc739e121b",
    ),
    Golden(
        "generators.AgrawalGenerator -f 9",
        "agrawal",
        {"function": 9},
        2_000,
        "c746838e0f69558576c4df9cf371b08b",
    ),
    Golden(
        "generators.AgrawalGenerator -f 9 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 9, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "1468b953b7eaaba4914ec95f06391734",
    ),
    Golden(
        "generators.AgrawalGenerator -f 10",
        "agrawal",
        {"function": 10},
        2_000,
        "d94d6a8f7c45f240daa78ee00c2af7ce",
    ),
    Golden(
        "generators.AgrawalGenerator -f 10 -b -p 0.0 -i 3",
        "agrawal",
        {"function": 10, "balance": True, "perturbation": 0.0, "seed": 3},
        2_000,
        "f2ad69c2e91fc9cfbbf04ff3b3b8e577",
    ),
    Golden(
        "generators.AgrawalGenerator -f 7 -p 0.1",
        "agrawal",
        {"function": 7, "perturbation": 0.1},
        2_000,
        "22a92410274bb1c4628c36b6e32391bc",
    ),
    Golden(
        _nested(500, 5_000, *_AGRAWAL),
        "agr_g",
        {"position": 5000, "width": 500},
        20_000,
        "c26cbb530ef741d2fb867ce7606a6174",
    ),
    Golden(
        _nested(500, 2_500_000, *_AGRAWAL), "agr_g", {}, 2_000, "f87bed1079cadc21ec0f9eb87c77ce97"
    ),
    Golden(
        "generators.RandomTreeGenerator -c 25 -o 200 -u 200",
        "rtg",
        {},
        2_000,
        "fba68795583bea864d9b90d6770b1c81",
    ),
    Golden(
        "generators.RandomTreeGenerator",
        "rtg",
        {"classes": 2, "nominal": 5, "numeric": 5},
        2_000,
        "8421b2e5e5f1340331449a2de0069850",
    ),
    Golden(
        "generators.RandomTreeGenerator -r 0 -i 1 -c 2 -o 5 -u 0 -v 5 -d 5 -l 3 -f 0.15",
        "rtg",
        {"classes": 2, "nominal": 5, "numeric": 0, "tree_seed": 0},
        2_000,
        "8b8f9639a0cf984970fccde44b6b4a6e",
    ),
    Golden(
        "generators.RandomTreeGenerator -r 2 -i 1 -c 5 -o 5 -u 0 -v 5 -d 5 -l 3 -f 0.15",
        "rtg",
        {"classes": 5, "nominal": 5, "numeric": 0, "tree_seed": 2},
        2_000,
        "391ba0a55996777c7ee3a3c9bbaae66c",
    ),
    Golden(
        "generators.RandomTreeGenerator -r 4 -i 2 -c 4 -o 0 -u 6 -d 8 -l 2 -f 0.3",
        "rtg",
        {
            "classes": 4,
            "nominal": 0,
            "numeric": 6,
            "depth": 8,
            "first_leaf": 2,
            "leaf_fraction": 0.3,
            "tree_seed": 4,
            "seed": 2,
        },
        2_000,
        "43d6b936b260b21cbeacc5262da07abc",
    ),
    Golden(
        "generators.RandomTreeGenerator -r -5 -i -3 -c 7 -o 8 -u 3 -v 3 -d 8 -l 1 -f 0.2",
        "rtg",
        {
            "classes": 7,
            "nominal": 8,
            "numeric": 3,
            "values": 3,
            "depth": 8,
            "first_leaf": 1,
            "leaf_fraction": 0.2,
            "tree_seed": -5,
            "seed": -3,
        },
        2_000,
        "52275f21f10d791efac30cd94d60cd18",
    ),
    Golden(
        "generators.RandomTreeGenerator -c 2 -o 10 -u 10",
        "dense",
        {"attributes": 10},
        2_000,
        "8267008720c235cc3d2ec4ee8f595449",
    ),
    Golden(
        "generators.RandomTreeGenerator -c 2 -o 50 -u 50",
        "dense",
        {"attributes": 50},
        2_000,
        "f015adde6fe79501f4b4d179665685dd",
    ),
    Golden(
        "generators.RandomTreeGenerator -c 2 -o 500 -u 500",
        "dense",
        {"attributes": 500},
        500,
        "8f5c7d0fe197fdcfeb34d7f9366b6cd8",
    ),
    Golden(
        "generators.RandomRBFGenerator -c 15 -a 200 -n 100",
        "rbf",
        {},
        2_000,
        "77dad2ceb857af668193b9140bc94c08",
    ),
    Golden(
        "generators.RandomRBFGenerator -r 3 -i 4",
        "rbf",
        {"classes": 2, "attributes": 10, "centroids": 50, "seed": 4, "centroid_seed": 3},
        2_000,
        "0ac7f49ea8a370cb159f00725706797b",
    ),
    Golden(
        "generators.WaveformGenerator", "waveform21", {}, 2_000, "68a20254528f1f873bdfd81266725923"
    ),
    Golden(
        "generators.WaveformGenerator -n -i 6",
        "waveform40",
        {"seed": 6},
        2_000,
        "26e3785e422a8be86d352b3a5b19c8d6",
    ),
    Golden(
        "generators.WaveformGenerator -n",
        "waveform40",
        {},
        2_000,
        "3489feb2f57d638b00952a9a6a12ff61",
    ),
    Golden(
        "generators.TextGenerator -a 100",
        "tweets",
        {"words": 100},
        2_000,
        "37ce89cf480d671b1710e58085430947",
    ),
    Golden(
        "generators.TextGenerator -a 100 -i 5",
        "tweets",
        {"words": 100, "seed": 5},
        2_000,
        "25ed15bbeee75ea350521ff478afffee",
    ),
    Golden("generators.TextGenerator", "tweets", {}, 2_000, "2934942fddd300e5850949756558b25c"),
    Golden(
        "generators.TextGenerator -a 10000",
        "tweets",
        {"words": 10000},
        500,
        "702df40ddaff09576e414f8e029d5f17",
    ),
)
