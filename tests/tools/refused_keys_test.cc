// SPDX-License-Identifier: Apache-2.0
// The list of refused keys is all of the sources', each is refused, and its file holds the same
// (TARE_WRITE_PAGES=1 writes it).
#include "tests/tools/refused_keys.h"

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/family_config.h"

namespace tare::refused_keys_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Words(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

// The keys of Refuse("key", ...), of loops over lists of keys that are refused, and of messages "... not supported".
std::set<std::string> RefusedIn(const std::string& source) {
  const std::regex one(R"re(Refuse\("(\w+)")re"), message(R"re("\{\}: (\w+): [^"]*not supported)re"),
      list(R"re(for \(const char\* \w+ : \{([^}]*)\}\)[^;]*Refuse\(\w+)re"), word(R"re("(\w+)")re");
  std::set<std::string> keys;
  const auto add = [&](const std::string& text, const std::regex& pattern) {
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
      keys.insert((*match)[1]);
  };
  add(source, one);
  add(source, message);
  for (std::sregex_iterator match(source.begin(), source.end(), list), end; match != end; ++match)
    add((*match)[1], word);
  return keys;
}

TEST(RefusedKeys, AreThoseOfTheSources) {
  std::set<std::string> listed, found;
  for (const RefusedKeys& row : AllRefusedKeys()) {
    for (const std::string& key : Words(row.keys)) listed.insert(key);
  }
  for (const char* folder : {"experiments/model/config", "experiments/model/families"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TARE_SOURCE_DIR) / folder)) {
      if (entry.path().extension() == ".cc") found.merge(RefusedIn(GetFile(entry.path())));
    }
  }
  EXPECT_GT(found.size(), 30u);
  for (const std::string& key : found) EXPECT_TRUE(listed.contains(key)) << key << ": not in refused_keys.h";
}

TEST(RefusedKeys, FileListsThem) {
  std::string csv = "key,models,not supported\n";
  for (const RefusedKeys& row : AllRefusedKeys())
    csv += Formatted("\"{}\",\"{}\",\"{}\"\n", row.keys, row.models, row.values);
  const fs::path path = fs::path(TARE_SOURCE_DIR) / "docs/reference/refused-keys.csv";
  if (std::getenv("TARE_WRITE_PAGES") != nullptr) PutFile(path, csv);
  EXPECT_EQ(GetFile(path), csv) << "try TARE_WRITE_PAGES=1";
}

TEST(RefusedKeys, EachHasAConfigurationThatIsRefusedByItsName) {
  for (const RefusedKeys& row : AllRefusedKeys()) {
    const std::vector<std::string> keys = Words(row.keys);
    ASSERT_GE(row.examples.size(), keys.size()) << row.keys;
    for (size_t i = 0; i < row.examples.size(); ++i) {
      const auto& [family, more] = row.examples[i];
      nlohmann::json json = SmallConfig(family);
      if (std::string(family) == "diff_v2") json["num_key_value_heads"] = 2;
      EXPECT_NO_THROW(Parsed(json)) << family;
      json.update(nlohmann::json::parse(more));
      std::string error;
      try {
        Parsed(json);
      } catch (const Error& e) {
        error = e.what();
      }
      std::set<std::string> named;
      for (const std::string& key : keys) {
        if (error.contains(": " + key + ": ")) named.insert(key);
      }
      EXPECT_TRUE(i < keys.size() ? named.contains(keys[i]) : !named.empty()) << more << ": " << error;
    }
  }
}

}  // namespace
}  // namespace tare::refused_keys_test
