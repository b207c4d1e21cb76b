def main() -> None:
    print("tiny")
