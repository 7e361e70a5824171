// SPDX-License-Identifier: Apache-2.0
// Chats as texts, by a checkpoint's chat template, as transformers' apply_chat_template makes them (5.12):
//
//   {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}     tools: if there are some
//
// strftime_now is undefined, so that results do not depend on the day: templates that ask write their own date.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <string>

#include "quant/file/json.h"

namespace tare {

enum class ChatEnd { kWhole, kPrompted };  // kPrompted: and what begins the model's answer, add_generation_prompt

// The text that a template makes of the values of its names. Throws Error, with `where` in front.
using ChatWriter = std::function<std::string(const Json& names, const std::string& where)>;

class ChatTemplate {
 public:
  // Once needed, reads chat_template.jinja, chat_template.json, or tokenizer_config.json, which a GGUF file has too.
  explicit ChatTemplate(std::filesystem::path checkpoint) : checkpoint_(std::move(checkpoint)) {}

  // With the special tokens that the template writes. where: of the chat. Throws Error for a checkpoint without
  // template, messages without a role, numbers of more than 53 bits, and what the template refuses, with its line.
  std::string Text(const Json& chat, ChatEnd end, const std::string& where);

 private:
  void Load(bool tools);

  std::filesystem::path checkpoint_;
  std::string where_;
  std::array<ChatWriter, 2> write_;  // chats without tools, and with some
  Json names_ = Json::object();      // its special tokens, and those of the last chat
};

// Who reads templates: the program, which has an interpreter (report/drawing).
void OnChat(ChatWriter (*read)(const std::string& source, const std::string& where));

}  // namespace tare
