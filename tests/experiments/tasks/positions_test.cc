// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/positions.h"

#include <gtest/gtest.h>

#include "experiments/table/table.h"

namespace tare {
namespace {

using Json = nlohmann::ordered_json;

TEST(Positions, ATableAndLinesOfEveryFigure) {
  const Json ranges{{{"first", 1}, {"last", 1}, {"tokens", 2}, {"nll", 6.25}, {"nll_stderr", Json()}, {"ratio", 1.5}},
                    {{"first", 2}, {"last", 3}, {"tokens", 40}, {"nll", 5.0}, {"nll_stderr", 0.125}, {"ratio", 1.25}}};
  EXPECT_EQ(PositionTable(ranges),
            "predicted from  tokens            nll  ratio\n"
            "1                    2           6.25    1.5\n"
            "2 to 3              40  5.00 +/- 0.12   1.25\n");
  EXPECT_EQ(TableCsv(TableOf(PositionRows("perplexity:a,b", ranges))),
            "task,first,last,tokens,figure,value,stderr\n"
            "\"perplexity:a,b\",1,1,2,nll,6.25,\n"
            "\"perplexity:a,b\",1,1,2,ratio,1.5,\n"
            "\"perplexity:a,b\",2,3,40,nll,5,0.125\n"
            "\"perplexity:a,b\",2,3,40,ratio,1.25,\n");
}

}  // namespace
}  // namespace tare
