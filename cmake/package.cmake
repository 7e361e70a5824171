# cpack, in a build folder: a Debian package of all that cmake --install puts down. Needs dpkg-dev and file.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "The Tare developers <tare@tare.invalid>")
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS librsvg2-bin) # tare plot --out f.pdf
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
