# The toolchain of the preset arm64: Debian's cross compiler, its libraries for arm64, and an emulator that runs the
# tests (tools/setup.sh --arm64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root REALPATH)
set(CMAKE_SYSROOT ${root})
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu neoverse-n2 -L ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
