export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
[ -e build/release/build.ninja ] || cmake --preset release -DTARE_TESTS=ON -DTARE_WERROR=ON >/dev/null
