// SPDX-License-Identifier: Apache-2.0
#include "quant/base/formatted.h"

#include <algorithm>
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

// 0x80 to 0x9f are control characters, too: two bytes in UTF-8 (C2 80), one where they stand alone.
std::string Printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  int more = 0;  // bytes of the character that has begun
  for (const char byte : text) {
    const auto c = static_cast<unsigned char>(byte);
    const bool of_two = more == 1 && shown.back() == '\xC2', upper = c >= 0x80 && c < 0xA0 && (more == 0 || of_two);
    more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : c >= 0x80 ? std::max(0, more - 1) : 0;
    if (upper || c == 0x7F || (c < 0x20 && c != '\n' && c != '\t')) {
      if (upper && of_two) shown.pop_back();
      shown += Formatted("\\u{:04x}", c);
    } else {
      shown += byte;
    }
  }
  return shown;
}

void PutError(std::string_view text) { std::fputs(Printable(text).c_str(), stderr); }

void PutText(std::string_view raw) {
  const std::string text = Printable(raw);
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (whole && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw ReaderEnded("standard output: cannot be written: whoever reads it has ended");
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
