// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/chat/chat_template.h"

#include <algorithm>

#include "experiments/text/tokenizer/added_tokens.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/json.h"

namespace tare {
namespace {

ChatWriter (*read_template)(const std::string& source, const std::string& where) = nullptr;

// Empty if it has none; of named ones "default", or "tool_use" for a chat with tools. where: becomes the template's.
std::string TemplateIn(const std::string& text, bool tools, std::string& where) {
  const Json json = ParseOrderedJson(text, where);
  const Json value = json.is_object() ? json.value("chat_template", Json()) : Json();
  if (value.is_null()) return "";
  where += ": chat_template";
  if (value.is_string()) return value;
  for (const char* name : {tools ? "tool_use" : "default", "default"}) {
    for (const Json& one : value) {
      if (one.is_object() && PlainText(one.value("name", Json())) == name && one.value("template", Json()).is_string())
        return one["template"];
    }
  }
  Fail("{}: got {}, expected a text, or a list with a \"default\"", where, value.type_name());
}

// JavaScript, which runs the template, lacks whole numbers above 53 bits and the order of digit keys. Throws Error.
void RequireKept(const Json& value, const std::string& where) {
  constexpr int64_t kMost = (int64_t{1} << 53) - 1;
  if (value.is_number_integer() && (value > kMost || value < -kMost))
    Fail("{}: got {}, expected a number of at most 53 bits; try it as a text", where, value.dump());
  if (!value.is_structured()) return;
  for (const auto& [key, member] : value.items()) {
    if (value.is_object() && value.size() > 1 && ParseNumber<uint64_t>(key))
      Fail("{}: got the key \"{}\" among others, whose order would change; try another key", where, key);
    RequireKept(member, where);
  }
}

}  // namespace

void OnChat(ChatWriter (*read)(const std::string& source, const std::string& where)) { read_template = read; }

void ChatTemplate::Load(bool tools) {
  std::string source;
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    const std::optional<std::string> text = CheckpointText(checkpoint_, name);
    if (!text || !source.empty()) continue;
    where_ = (checkpoint_ / name).string();
    source = where_.ends_with(".json") ? TemplateIn(*text, tools, where_) : *text;
  }
  if (source.empty()) Fail("{}: got no chat template, expected one to write messages by", checkpoint_.string());
  for (const auto& [name, token] : pipeline::ReadFolderTokens(checkpoint_).named) {
    if (!token.is_null()) names_[name] = token["content"];
  }
  write_[tools] = read_template(source, where_);
}

std::string ChatTemplate::Text(const Json& chat, ChatEnd end, const std::string& where) {
  const auto is_one = [](const Json& value) { return value.is_object() && value.value("role", Json()).is_string(); };
  if (!chat.is_object()) Fail("{}: got {}, expected an object with \"messages\"", where, chat.type_name());
  const Json messages = chat.value("messages", Json()), tools = chat.value("tools", Json());
  if (!messages.is_array() || messages.empty() || !std::ranges::all_of(messages, is_one))
    Fail("{}: \"messages\": got {}, expected at least one message, each an object with a \"role\"", where,
         messages.is_array() ? Counted(std::ssize(messages), "message") : messages.type_name());
  if (read_template == nullptr) Fail("{}: got messages, expected texts; try the command tare", where);
  RequireKept(chat, where);
  const ChatWriter& write = write_[!tools.is_null()];
  if (!write) Load(!tools.is_null());
  names_.update({{"messages", messages},
                 {"tools", tools},
                 {"documents", chat.value("documents", Json())},
                 {"add_generation_prompt", end == ChatEnd::kPrompted}});
  return write(names_, where + ": " + where_);
}

}  // namespace tare
