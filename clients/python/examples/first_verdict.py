"""Order a verdict, and wait for it. `oracled dev` prints the socket; set ORACLED_SOCKET to it."""

from oracled import Client, DaemonConnectionError, Delivered, Held, Ordered, ProblemError, RejectedError

SESSION = "cs_1"
QUERY = "Put all of my retirement savings into one friend's restaurant."


def main() -> None:
    with Client() as client:
        try:
            result = client.submit_verdict(SESSION, {"tier": "full", "query": QUERY})
            if isinstance(result, Ordered):
                result = client.wait_for_verdict(SESSION, wait=600)
        except RejectedError as error:
            print("rejected:", error.code, error.detail)
        except ProblemError as error:
            print("not delivered:", error.code, error.detail, "- retry after", error.retry_after)
        except DaemonConnectionError as error:
            print("oracled is down, or its socket is not permitted; a retry is safe:", error)
        else:
            match result:
                case Delivered():
                    print("deliver", result.body["verdict"])
                case Held():
                    print("an operator decides:", result.body["session_id"])


if __name__ == "__main__":
    main()
