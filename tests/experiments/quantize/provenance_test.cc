// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"

namespace tare {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Provenance kJob{.plan = "weights=int4/channel",
                      .plan_hash = "h",
                      .method = "gptq",
                      .source = "m",
                      .source_sha256 = "s",
                      .calibration = "t"};

TEST(Provenance, StepsAreAddedFromLeftToRight) {
  Provenance p;
  AddStep(p, "hadamard", "");
  EXPECT_EQ(p.method, "hadamard");
  EXPECT_EQ(p.calibration, "");
  AddStep(p, "gptq", "text a");
  AddStep(p, "quantease", "text a");
  AddStep(p, "rtn", "text b");
  EXPECT_EQ(p.method, "hadamard+gptq+quantease+rtn");
  EXPECT_EQ(p.calibration, "text a; text b");
}

TEST(Provenance, OfAFolderAndOfAFileMadeOfOne) {
  const auto folder = GoldenFolder("llama-mha");
  const Provenance of_folder = ProvenanceOf(Checkpoint(folder), folder);
  EXPECT_EQ(of_folder.source, "llama-mha");
  EXPECT_EQ(of_folder.source_sha256, Checkpoint(folder).ContentHash());
  EXPECT_EQ(of_folder.method, "");
}

TEST(Provenance, AnotherJobIsNamedByWhatDiffers) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "q.h5";
  {
    QuantizedCheckpointWriter file(path, kJob);
    file.AddFile("config.json", "{}");
    file.Commit();
  }
  const QuantizedCheckpoint file(path);
  EXPECT_NO_THROW(RequireSameJob(path, file, kJob, "{}"));
  EXPECT_THAT([&] { RequireSameJob(path, file, kJob, "{ }"); },
              ThrowsMessage<Error>(HasSubstr("its config.json is '{}', this job's is '{ }'")));
  for (std::string Provenance::* part : {&Provenance::plan, &Provenance::method, &Provenance::source,
                                         &Provenance::source_sha256, &Provenance::calibration}) {
    Provenance other = kJob;
    other.*part = "other";
    EXPECT_THAT([&] { RequireSameJob(path, file, other, "{}"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("q.h5: belongs to another job"),
                                           HasSubstr("this job's is 'other'"), HasSubstr("is '" + kJob.*part + "'"))));
  }
}

}  // namespace
}  // namespace tare
