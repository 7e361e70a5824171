// SPDX-License-Identifier: Apache-2.0
// The Python module tare._tare. Its public interface is tare/__init__.py.
#include "tools/python/module.h"

#include <cstdio>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/mapped_file.h"

namespace nb = nanobind;

namespace tare {
namespace {

void Translate(const std::exception_ptr& caught, void*) {
  try {
    std::rethrow_exception(caught);
  } catch (const Error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  }
}

}  // namespace
}  // namespace tare

NB_MODULE(_tare, module) {
  module.attr("__version__") = TARE_VERSION;
  nb::register_exception_translator(tare::Translate);
  tare::OnNotice([](const std::string& text) { std::fprintf(stderr, "tare: %s\n", text.c_str()); });
  tare::OpenFilesAs(tare::FileMemory::kCopied);
  tare::WatchForks();
  tare::AddAttention(module);
  tare::AddQuantize(module);
  tare::AddFiles(module);
  tare::AddStatistics(module);
}
