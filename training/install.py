"""Copies the trained pair from work/ to models/demo, file by file through renames."""
import os
import pathlib
import shutil

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parent / "models/demo"
FILES = {"target": ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"],
         "dspark": ["config.json", "model.safetensors"]}


def main():
    for model, names in FILES.items():
        (DEMO / model).mkdir(parents=True, exist_ok=True)
        for name in names:
            part = DEMO / model / f"{name}.part"
            shutil.copyfile(HERE / "work" / model / "export" / name, part)
            os.replace(part, DEMO / model / name)


if __name__ == "__main__":
    main()
