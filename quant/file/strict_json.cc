// SPDX-License-Identifier: Apache-2.0
#include "quant/file/json.h"

#include <iterator>
#include <set>
#include <tuple>
#include <vector>

#include "quant/file/mapped_file.h"

namespace tare {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxBytes = 100'000'000;

// Bytes of memory: what a member of an object takes beside its value, and a list, an object or a string beside its
// place (glibc's blocks), and what all values may take: tokenizers, whose merges are lists of two, take 4 for each byte
// of their text, without its blanks up to 19, and lists of empty lists 21.
constexpr size_t kOfMember = 80, kOfItsOwn = 48, kMostBesideText = size_t{128} << 20, kMostPerByte = 4;

// nlohmann's message without its prefix "[json.exception.parse_error.101] ".
std::string Reason(const std::exception& error) {
  const std::string text = error.what();
  const size_t bracket = text.find("] ");
  return bracket == std::string::npos ? text : text.substr(bracket + 2);
}

// Builds a value from the parser's events. A key is inserted once, and the insertion tells whether it is there already:
// of a vocabulary of 128,000 pieces, the library's own filter of events took most of the time.
template <typename Json>
class StrictReader : public nlohmann::json_sax<Json> {
 public:
  StrictReader(const std::string& where, size_t bytes) : where_(where), bytes_(bytes) {}

  Json& root() { return root_; }

  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(typename Json::number_integer_t value) override { return Put(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) override { return Put(value); }
  bool number_float(typename Json::number_float_t value, const std::string&) override { return Put(value); }
  bool string(std::string& value) override { return Put(std::move(value)); }
  bool binary(typename Json::binary_t&) override { return false; }  // no JSON text has any
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& key) override {
    CheckDepth();
    Take(kOfMember);
    auto& object = open_.back()->template get_ref<typename Json::object_t&>();
    bool is_new = true;
    auto place = object.end();
    if constexpr (std::same_as<Json, nlohmann::ordered_json>) {
      is_new = keys_.back().insert(key).second;
      using Members = typename Json::object_t::Container;
      static_cast<Members&>(object).emplace_back(std::move(key), nullptr);
      place = std::prev(object.end());
    } else {
      std::tie(place, is_new) = object.emplace(std::move(key), nullptr);
    }
    if (!is_new) Fail("{}: got the key '{}' twice, expected once", where_, place->first);
    value_ = &place->second;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    Fail("{}: not valid JSON: {}; try downloading or saving it again", where_, Reason(error));
  }

 private:
  void CheckDepth() const {
    if (open_.size() >= kMaxDepth) Fail("{}: got JSON nested {} deep, expected less", where_, kMaxDepth);
  }
  void Take(size_t memory) {
    taken_ += memory;
    if (taken_ > kMostBesideText + kMostPerByte * bytes_)
      Fail("{}: got values that take over {} MB of memory, expected fewer in {} bytes of JSON", where_,
           taken_ / 1'000'000, bytes_);
  }
  Json* Place(Json value) {
    CheckDepth();
    Take(sizeof(Json) + (value.is_structured() || value.is_string() ? kOfItsOwn : 0));
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_object()) return &(*value_ = std::move(value));
    auto& list = open_.back()->template get_ref<typename Json::array_t&>();
    return &list.emplace_back(std::move(value));
  }
  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }
  bool Open(Json value) {
    open_.push_back(Place(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool Close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  const std::string& where_;
  const size_t bytes_;  // of the text
  size_t taken_ = 0;    // of memory
  Json root_;
  std::vector<Json*> open_;                  // a list does not grow, and move its members, while one of them is open
  Json* value_ = nullptr;                    // of the last key
  std::vector<std::set<std::string>> keys_;  // of open objects in order, which look a key up one by one
};

template <typename Json>
Json Parse(std::string_view text, const std::string& where) {
  if (text.size() > kMaxBytes) Fail("{}: got {} bytes, expected JSON of at most {}", where, text.size(), kMaxBytes);
  if (text.find('\0') != text.npos) Fail("{}: got a NUL byte, expected JSON text; try downloading it again", where);
  StrictReader<Json> reader(where, text.size());
  Json::sax_parse(text, &reader);
  return std::move(reader.root());
}

}  // namespace

nlohmann::json ParseJson(std::string_view text, const std::string& where) { return Parse<nlohmann::json>(text, where); }
nlohmann::ordered_json ParseOrderedJson(std::string_view text, const std::string& where) {
  return Parse<nlohmann::ordered_json>(text, where);
}

nlohmann::json ReadJson(const std::filesystem::path& path) {
  const MappedFile file(path);
  return ParseJson(file.text(), path.string());
}

void RefuseOdd(const std::string& where, const std::exception& of_json) {
  Fail("{}: {}; was it made by another version? Try making it again", where, Reason(of_json));
}

}  // namespace tare
