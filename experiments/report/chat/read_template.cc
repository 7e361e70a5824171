// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/chat/read_template.h"

#include <memory>

#include "experiments/report/drawing/interpreter.h"
#include "experiments/text/utf8.h"

namespace tare {

ChatWriter ReadChatTemplate(const std::string& source, const std::string& where) {
  constexpr int64_t kSteps = 2000;  // up to four seconds, a hundred times what a long chat needs
  RequireUtf8(source, where);
  const std::shared_ptr<Interpreter> script(new Interpreter({"words.js", "values.js", "template.js"}, kSteps));
  (void)script->Call("read", {source}, where);
  return [script](const Json& names, const std::string& of_chat) {
    return script->Call("write", {JsonText(names)}, of_chat);
  };
}

}  // namespace tare
