// SPDX-License-Identifier: Apache-2.0
#include "tools/command.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <fstream>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/parallel.h"
#include "quant/file/atomic_file.h"
#include "quant/file/json.h"

namespace tare {

CLI::Validator WholeNumber(int64_t least, int64_t most) {
  const bool open = most == std::numeric_limits<int64_t>::max();
  const std::string range = open ? Formatted("{} or more", least) : Formatted("{} to {}", least, most);
  const auto check = [least, most, range](const std::string& text) {
    int64_t number = 0;
    const std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    return whole && least <= number && number <= most ? std::string()
                                                      : Formatted("got '{}', expected a whole number {} {}", text,
                                                                  range.contains("more") ? "of" : "from", range);
  };
  return CLI::Validator(check, range);
}

void RequireEffect(const CLI::App& command, bool counts, std::initializer_list<const char*> options,
                   const std::string& without) {
  for (const char* option : options) {
    if (!counts && command.count(option) > 0)
      throw CLI::ValidationError(option, Formatted("changes nothing without {}; try it without {}", without, option));
  }
}

void MachineOptions::AddThreadsTo(CLI::App& command) {
  command.add_option("--threads", threads, "threads (0: all processors); results do not depend on it")
      ->check(WholeNumber(0, 4096));
}

void MachineOptions::AddTo(CLI::App& command) {
  AddThreadsTo(command);
  command.add_option("--math", math, "type of the factors of matrix products")
      ->check(CLI::IsMember({"f32", "bf16"}))
      ->capture_default_str();
}

Math MachineOptions::Apply() const {
  SetThreads(threads);
  return math == "bf16" ? Math::kBf16 : Math::kF32;
}

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

void WriteJson(const std::string& target, const nlohmann::ordered_json& json) {
  if (target.empty()) return;
  const std::string text = json.dump(2) + "\n";
  if (target == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);  // main looks at how it went
  } else {
    WriteFileAtomically(target, text);
  }
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressLine::~ProgressLine() {
  if (shown_) std::fprintf(stderr, "\r\033[K");
}

void ProgressLine::Rename(std::string what) {
  what_ = std::move(what);
  start_ = std::chrono::steady_clock::now();
}

Progress ProgressLine::Callback() {
  if (!terminal_) return {};
  return [this](int64_t done, int64_t total, const char* unit) { Show(done, total, unit); };
}

void ProgressLine::Show(int64_t done, int64_t total, const char* unit) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && now - last_ < 100ms && done < total) return;
  last_ = now;
  shown_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0.0;
  const double left = rate > 0 ? static_cast<double>(total - done) / rate : 0.0;
  const std::string line =
      Formatted("{}: {} of {} {}, {:.0f} per second, {:.0f} s left", what_, done, total, unit, rate, left);
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
}

}  // namespace tare
