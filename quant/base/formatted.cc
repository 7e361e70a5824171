// SPDX-License-Identifier: Apache-2.0
#include "quant/base/formatted.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <set>

#include "quant/base/error.h"

namespace tare {
namespace {

struct Notices {
  std::mutex mutex;
  std::set<std::string> said;
  void (*show)(const std::string&) = nullptr;
};

Notices& All() {
  static Notices notices;
  return notices;
}

}  // namespace

void PutText(std::string_view text) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!whole || std::fflush(stdout) != 0)
    Fail("standard output: cannot be written: {}; try freeing space, or another place for it", std::strerror(errno));
}

std::string FormatArguments(std::string_view format, std::format_args args) { return std::vformat(format, args); }

std::string SizeText(int64_t bytes) {
  constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB"};
  if (bytes < 1000) return Formatted("{} bytes", bytes);
  double size = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; size >= 999.5 && unit + 1 < std::size(kUnits); ++unit) size /= 1000;
  return Formatted("{:.{}f} {}", size, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, kUnits[unit]);
}

void Notice(const std::string& text) {
  Notices& notices = All();
  const std::scoped_lock lock(notices.mutex);
  if (notices.said.insert(text).second && notices.show != nullptr) notices.show(text);
}

void OnNotice(void (*show)(const std::string& text)) {
  Notices& notices = All();
  const std::scoped_lock lock(notices.mutex);
  notices.said.clear();
  notices.show = show;
}

}  // namespace tare
