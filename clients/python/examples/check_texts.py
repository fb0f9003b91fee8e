"""Check the lines of standard input against facts, with the async client.

Usage: python check_texts.py FACT... < texts.txt
"""

import asyncio
import sys
from collections.abc import Iterator

from oracled import AsyncClient
from oracled.types import EvaluateTextRequest


def requests(facts: list[str]) -> Iterator[EvaluateTextRequest]:
    for line in sys.stdin:
        yield {"candidate_output": line.rstrip("\n"), "facts": facts, "rules": ["RULE-PREC-013"]}


async def main() -> None:
    async with AsyncClient() as client:
        async for answer in client.evaluate_texts(requests(sys.argv[1:])):
            if "evaluation" in answer:
                print(answer["line"], answer["evaluation"]["verdict"])
            else:
                print(answer["line"], answer["problem"]["detail"])


if __name__ == "__main__":
    asyncio.run(main())
