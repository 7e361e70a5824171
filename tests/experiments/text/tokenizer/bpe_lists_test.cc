// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/bpe_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "quant/file/json.h"
#include "tests/support/call.h"

namespace tare::bpe_lists_test {
namespace {

using namespace pipeline;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::ThrowsMessage;

std::string Refused(const std::string& model) {
  try {
    BpeLists lists;
    ParseWithLists(R"({"model": )" + model + "}", "t.json", &lists);
    return "taken";
  } catch (const Error& error) {
    return error.what();
  }
}

// Either list first; both ways to write a merge; lists of these names elsewhere stay where they are.
TEST(BpeLists, AreTakenOutOfTheFile) {
  for (const std::string model :
       {R"({"vocab": {"a": 1, "\u00e9": 0}, "merges": ["a b", ["c ", "d"]], "type": "BPE"})",
        R"({"merges": ["a b", ["c ", "d"]], "type": "BPE", "vocab": {"a": 1, "\u00e9": 0}})"}) {
    BpeLists lists;
    const nlohmann::json json =
        ParseWithLists(R"({"vocab": {"x": 7}, "model": )" + model + R"(, "other": {"merges": ["x"]}})", "t", &lists);
    EXPECT_EQ(json, nlohmann::json::parse(R"({"vocab": {"x": 7}, "other": {"merges": ["x"]},
                                              "model": {"vocab": {}, "merges": [], "type": "BPE"}})"));
    EXPECT_EQ(lists.names.size(), 2u);
    EXPECT_EQ(lists.names.Piece(1), "a");
    EXPECT_EQ(lists.names.Find("\xc3\xa9"), 0);
    EXPECT_THAT(lists.merges, ElementsAre(Pair("a", "b"), Pair("c ", "d")));
  }
}

TEST(BpeLists, OtherVocabulariesStay) {
  BpeLists lists;
  const nlohmann::json unigram =
      ParseWithLists(R"({"model": {"vocab": [["a", -1.0]], "merges": {"a": 1}}})", "t", &lists);
  EXPECT_EQ(unigram, nlohmann::json::parse(R"({"model": {"vocab": [["a", -1.0]], "merges": {"a": 1}}})"));
  EXPECT_EQ(lists.names.size(), 0u);
  EXPECT_THAT(lists.merges, IsEmpty());
}

TEST(BpeLists, DamagedMembersAreRefused) {
  EXPECT_EQ(Refused(R"({"vocab": {"a": 0, "b": 1.5}})"), "t.json: model: vocab: 'b': got 1.5, expected an id");
  EXPECT_EQ(Refused(R"({"vocab": {"a": {"b": [0]}}})"), R"(t.json: model: vocab: 'a': got {"b":[0]}, expected an id)");
  EXPECT_EQ(Refused(R"({"vocab": {"a": 0, "b": 1, "a": 2}})"),
            "t.json: model: vocab: got 'a' with ids 0 and 2, expected one");
  for (const std::string merge :
       {"7", R"("ab")", R"("a b c")", R"(" b")", R"(["a"])", R"(["a",""])", R"([["a"],"b"])"}) {
    EXPECT_EQ(Refused(R"({"merges": ["a b", )" + merge + "]}"),
              "t.json: model: merges: 1: got " + merge + ", expected two pieces");
  }
  EXPECT_THAT(Refused(R"({"vocab": {"a": 0, "b"}})"), HasSubstr("t.json: not valid JSON: "));
}

}  // namespace
}  // namespace tare::bpe_lists_test
