# All that the build needs comes from the distribution (tools/setup.sh installs it): what the components are linked
# with, then what our own sources, program and tests include. A missing package is named with the command that mends it.
tare_find(experiments)
find_package(Eigen3 3.4 QUIET CONFIG)
tare_need(Eigen3_FOUND libeigen3-dev)
find_path(boost_math_INCLUDE boost/math/distributions/students_t.hpp)  # of headers alone, in one source
tare_need(boost_math_INCLUDE libboost-dev)
if(TARE_TOOLS)
  find_path(CLI11_INCLUDE CLI/CLI.hpp)
  tare_need(CLI11_INCLUDE libcli11-dev)
endif()
if(TARE_TOOLS OR TARE_TESTS)  # the report draws with Vega in QuickJS: both become a part of the program
  find_file(TARE_VEGA vega.min.js PATHS /usr/share/nodejs/vega/build NO_DEFAULT_PATH)
  tare_need(TARE_VEGA node-vega)
  find_file(TARE_VEGA_LITE vega-lite.min.js PATHS /usr/share/nodejs/vega-lite/build NO_DEFAULT_PATH)
  tare_need(TARE_VEGA_LITE node-vega-lite)
  find_library(TARE_QUICKJS quickjs PATH_SUFFIXES quickjs)
  tare_need(TARE_QUICKJS libquickjs)
endif()
if(TARE_TESTS)
  find_package(GTest QUIET CONFIG)
  tare_need(GTest_FOUND libgtest-dev libgmock-dev)
endif()
if(tare_missing)
  list(JOIN tare_missing " " tare_missing)
  message(FATAL_ERROR
          "Tare needs packages that are not there: run tools/setup.sh, or on Debian 13: apt install ${tare_missing}")
endif()
