"""Copies the trained models from work/ to models/demo, file by file through renames: `--only eagle3,medusa`."""
import argparse
import os
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parent / "models/demo"
DRAFTER = ["config.json", "model.safetensors", "training.json"]
FILES = {"target": DRAFTER + ["generation_config.json", "tokenizer.json", "tokenizer_config.json"],
         "dspark": DRAFTER, "eagle3": DRAFTER, "medusa": DRAFTER, "dflash": DRAFTER}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(FILES))
    for model in parser.parse_args().only:
        source = HERE / "work" / (model if model in ("target", "dspark") else f"drafters/{model}") / "export"
        (DEMO / model).mkdir(parents=True, exist_ok=True)
        for name in FILES[model]:
            part = DEMO / model / f"{name}.part"
            shutil.copyfile(source / name, part)
            os.replace(part, DEMO / model / name)


if __name__ == "__main__":
    main()
