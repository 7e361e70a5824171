// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/command_lines.h"

#include <set>

#include "tests/damage/damage.h"

namespace tare::attack {
namespace {

const Words& Values() {
  static const Words values{"",
                            " ",
                            "-",
                            "--",
                            "0",
                            "1",
                            "-1",
                            "1e9",
                            "nan",
                            "99999999999999999999",
                            "1,000",
                            "16,4",
                            "true",
                            "/",
                            ".",
                            "..",
                            "/dev/null",
                            "/dev/full",
                            "none/x",
                            "out",
                            "out/",
                            "m",
                            "m/",
                            "m/model.safetensors",
                            "m/../m/config.json",
                            "t.txt",
                            "./t.txt",
                            "i.h5",
                            "items.jsonl",
                            "q.h5",
                            "s.h5",
                            "s0.h5",
                            "sw",
                            "out/x",
                            "weights=int4/group16",
                            "weights=int8",
                            "attn_logits=int4/row",
                            "attn_logits[l0-9999999999]=int4/row",
                            "q,k,v=int8/head+static",
                            "linear_in=int6/token",
                            "int8",
                            "int6",
                            "int4",
                            "weights=int4/group0",
                            "weights=int4/channel+mse+mse",
                            "x=y",
                            "=",
                            "a=b=c,,,",
                            "gptq",
                            "hadamard:-1+gptq",
                            "cayley:1:-1+gptq",
                            "smoothquant:nan",
                            "rtn+rtn",
                            "perplexity=t.txt",
                            "choice=items.jsonl",
                            "choice=",
                            "f32",
                            "bf16",
                            "int8/row,int4/group3",
                            "0/0",
                            "1/1",
                            "-1/2",
                            "layer_out,,",
                            "\xff\xfe",
                            "\xe2\x80\xae",
                            std::string(5000, 'a'),
                            std::string(200, '['),
                            "weights=" + std::string(3000, '+')};
  return values;
}

std::string HelpOf(const std::string& program, const std::filesystem::path& folder, const Words& command) {
  Words line{program};
  line.insert(line.end(), command.begin(), command.end());
  line.push_back("--help");
  return Process(folder, line).Wait(std::chrono::seconds(60)).out;
}

bool IsLetter(char c) { return c >= 'a' && c <= 'z'; }

// The first words of lines that begin with two spaces.
std::set<std::string> Listed(const std::string& help) {
  std::set<std::string> words;
  for (size_t line = help.find("\n  "); line != help.npos; line = help.find("\n  ", line + 1)) {
    size_t end = line + 3;
    while (end < help.size() && IsLetter(help[end])) ++end;
    if (end > line + 3 && end < help.size() && help[end] == ' ') words.insert(help.substr(line + 3, end - line - 3));
  }
  return words;
}

std::set<std::string> Options(const std::string& help) {
  std::set<std::string> words;
  for (size_t at = help.find("--"); at != help.npos; at = help.find("--", at + 2)) {
    size_t end = at + 2;
    while (end < help.size() && (IsLetter(help[end]) || help[end] == '-')) ++end;
    if (end > at + 2) words.insert(help.substr(at, end - at));
  }
  return words;
}

}  // namespace

Words Dictionary(const std::string& program, const std::filesystem::path& folder) {
  std::set<std::string> commands = Listed(HelpOf(program, folder, {})), words;
  for (const std::string& command : commands) {
    const std::string help = HelpOf(program, folder, {command});
    words.merge(Options(help));
    if (command == "stats") words.merge(Listed(help));
  }
  commands.erase("bench");  // its runs may take minutes by right
  words.insert(commands.begin(), commands.end());
  Words all(words.begin(), words.end());
  all.insert(all.end(), Values().begin(), Values().end());
  return all;
}

Words DamageWords(Words words, const Words& dictionary, Random& random) {
  for (size_t n = 1 + random.Below(3); n > 0; --n) {
    const size_t at = random.Below(words.size());
    switch (words.empty() ? 0 : random.Below(6)) {
      case 0:
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), random.Of(dictionary));
        break;
      case 1:
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 2:
        words[at] = words[random.Below(words.size())];
        break;
      case 3:
        words.push_back(random.Of(dictionary));
        words.push_back(random.Of(dictionary));
        break;
      case 4:
        words[at] = damage::DamageBytes(words[at], random);
        if (words[at].contains('\0')) words[at] = words[at].c_str();  // where the program's word would end
        break;
      default:
        words[at] = random.Of(dictionary);
        break;
    }
  }
  return words;
}

}  // namespace tare::attack
