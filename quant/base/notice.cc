// SPDX-License-Identifier: Apache-2.0
#include "quant/base/notice.h"

#include <mutex>
#include <set>

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
