// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/chat/chat_template.h"

#include <algorithm>

#include "experiments/text/tokenizer/folder_tokens.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"

namespace tare {
namespace {

ChatWriter (*read_template)(const std::string& source, const std::string& where) = nullptr;

// Empty where the file has none; of a list of named ones "default" counts. where: of the file, becomes the template's.
std::string TemplateIn(const std::string& text, std::string& where) {
  const Json json = ParseOrderedJson(text, where);
  const Json value = json.is_object() ? json.value("chat_template", Json()) : Json();
  if (value.is_null()) return "";
  where += ": chat_template";
  if (value.is_string()) return value;
  for (const Json& one : value) {
    if (one.is_object() && one.value("name", Json()) == "default" && one.value("template", Json()).is_string())
      return one["template"];
  }
  Fail("{}: got {}, expected a text, or a list with a \"default\"", where, value.type_name());
}

}  // namespace

void OnChat(ChatWriter (*read)(const std::string& source, const std::string& where)) { read_template = read; }

void ChatTemplate::Load() {
  std::string source;
  for (const char* name : {"chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    const std::optional<std::string> text = CheckpointText(checkpoint_, name);
    if (!text || !source.empty()) continue;
    where_ = (checkpoint_ / name).string();
    source = where_.ends_with(".json") ? TemplateIn(*text, where_) : *text;
  }
  if (source.empty()) Fail("{}: got no chat template, expected one to write messages by", checkpoint_.string());
  for (const auto& [name, token] : pipeline::ReadFolderTokens(checkpoint_).named) {
    if (!token.is_null()) names_[name] = token["content"];
  }
  write_ = read_template(source, where_);
}

std::string ChatTemplate::Text(const Json& chat, ChatEnd end, const std::string& where) {
  const auto is_one = [](const Json& value) { return value.is_object() && value.value("role", Json()).is_string(); };
  const Json messages = chat.is_object() ? chat.value("messages", Json()) : Json();
  if (!messages.is_array() || messages.empty() || !std::ranges::all_of(messages, is_one))
    Fail("{}: \"messages\": got {}, expected at least one message, each an object with a \"role\"", where,
         messages.is_array() ? Counted(std::ssize(messages), "message") : messages.type_name());
  if (read_template == nullptr) Fail("{}: got messages, expected texts; try the command tare", where);
  if (!write_) Load();
  names_.update({{"messages", messages},
                 {"tools", chat.value("tools", Json())},
                 {"documents", chat.value("documents", Json())},
                 {"add_generation_prompt", end == ChatEnd::kPrompted}});
  return write_(names_, where + ": " + where_);
}

}  // namespace tare
