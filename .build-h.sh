set -e
cd /work/main
S=$(date +%s)
cmake --preset release -DTARE_TESTS=ON -DTARE_TESTS_TOGETHER=OFF -DTARE_WERROR=ON -DCMAKE_UNITY_BUILD=OFF -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >/dev/null
cmake --build --preset release --target tare -- -k 0
echo tare built $(( $(date +%s)-S ))
cmake --build --preset release -- -k 0
echo built $(( $(date +%s)-S ))
