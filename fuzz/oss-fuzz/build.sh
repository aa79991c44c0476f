#!/bin/bash -eu
# Builds every target with the engine and the sanitizer that the environment names, as OSS-Fuzz and ClusterFuzzLite call it:
# CC, CXX, CFLAGS, CXXFLAGS, LIB_FUZZING_ENGINE, OUT, SANITIZER. Leaves in $OUT, for each target, the program, its seed corpus
# as a zip and its dictionary. `./kvcert fuzz oss-fuzz` runs it here.
source=${KVCERT_SOURCE:-$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." 2> /dev/null && [ -f meson.build ] && pwd || echo "$SRC/kvcert")}
work=${WORK:-/tmp/kvcert-work}/build
: "${CC:?}" "${CXX:?}" "${OUT:?}" "${SANITIZER:?}"

# The flags say what is sanitized and watched. fmt as headers only, since the C++ library may be another one than the packages';
# MPFR, MPFI and GMP are C and go into the program, which runs where they are not installed.
export CFLAGS="${CFLAGS:-}" CXXFLAGS="${CXXFLAGS:-} -DFMT_HEADER_ONLY=1"
[ "$SANITIZER" = coverage ] || CXXFLAGS="$CXXFLAGS -fno-sanitize-recover=all"
[ -f "$work/build.ninja" ] ||
  meson setup -Dfuzz=true -Dfuzz_engine="$LIB_FUZZING_ENGINE" -Dprefer_static=true --buildtype=plain -Db_lundef=false "$work" "$source"

targets=(import_wire round_trip operations arguments kernels text_inputs)
ninja -C "$work" ${KVCERT_JOBS:+-j "$KVCERT_JOBS"} "${targets[@]/#/fuzz/kvcert_fuzz_}"

seeds() {  # TARGET  the folders of its corpus
  echo "$source/corpus/fuzz/$1"
  [ "$1" != import_wire ] || echo "$source"/corpus/wire/{accept,reject,peer}
}
for target in "${targets[@]}"; do
  cp "$work/fuzz/kvcert_fuzz_$target" "$OUT/$target"
  seeds_here=$work/seeds/$target
  rm -rf "$seeds_here" "$OUT/${target}_seed_corpus.zip"
  mkdir -p "$seeds_here"
  for folder in $(seeds "$target"); do
    for file in "$folder"/*; do
      # Folders share names; in the archive there are none.
      [[ ! -f $file || $file == */index.json ]] || cp "$file" "$seeds_here/${folder##*/}-${file##*/}"
    done
  done
  (cd "$seeds_here" && python3 -m zipfile -c "$OUT/${target}_seed_corpus.zip" ./*)
  [ ! -f "$source/fuzz/dictionaries/$target.dict" ] || cp "$source/fuzz/dictionaries/$target.dict" "$OUT/"
done
