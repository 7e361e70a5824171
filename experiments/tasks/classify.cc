// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/classify.h"

#include <algorithm>
#include <cmath>

#include "experiments/arrays/array_file.h"
#include "experiments/significance/mean_error.h"
#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"

namespace tare {
namespace {

RunTask ReadClassify(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  CutText text = LabelledImages(file, of.config(), options.windows);
  const TaskSize size = SizeOf(text.sequences);
  auto body = [text = std::move(text)](Model& model, PlanRun& run, const Progress& progress) {
    run.RefuseCache("classify");
    model.Show(text.images);
    const auto losses = MeasureLosses(model, run.Begin(model, progress), text.sequences, {}, progress);
    std::optional<Json> figures = ClassFigures(losses);
    if (!figures) Fail("classify: the mean loss is not finite; try `tare stats` to see where");
    return TaskResult{.figures = *std::move(figures), .records = {}};
  };
  return {std::move(body), size};
}

constexpr FigureKeys kClassify[] = {
    {.name = "acc", .error = "acc_stderr", .outcomes = "acc_outcomes"},
    {.name = "acc5", .error = "acc5_stderr", .outcomes = "acc5_outcomes"},
    {.name = "nll", .error = "nll_stderr", .windows = OfSamples("image_losses", "image_counts")}};

}  // namespace

CutText LabelledImages(const std::filesystem::path& file, const ModelConfig& config, const WindowOptions& options) {
  if (options.window != 0 || options.stride != 0 || options.convention != Convention::kTare)
    FailUsage("{}: got --window, --stride or --convention, expected none for images", file.string());
  const auto images = std::make_shared<const Images>(file, config);
  const auto smaller = [](int64_t a, int64_t b) { return a == 0 || b == 0 ? a + b : std::min(a, b); };
  const auto limit = static_cast<size_t>(smaller(options.limit, options.tokens));
  const std::vector<size_t> places = TakenPlaces(static_cast<size_t>(images->size()), limit, options.Part());
  if (const int64_t labelled = ReadIntegers(file, "labels", 1).shape[0]; labelled > images->size())
    Fail("{}: labels: got {}, expected one for each of {} images", file.string(), labelled, images->size());
  const std::vector<int64_t> labels = LabelsOf(file, places, "images", config.vocabulary);
  const int64_t length = config.max_positions;
  CutText text{.sequences = {},
               .cut = {.window = length,
                       .stride = length,
                       .from = options.TakesPart() ? std::optional(options.from) : std::nullopt,
                       .of_tokens = images->size()},
               .images = images};
  for (size_t i = 0; i < places.size(); ++i) {
    std::vector<int32_t> ids = images->Sequence(static_cast<int64_t>(places[i]));
    ids.push_back(static_cast<int32_t>(labels[i]));
    text.sequences.push_back({.tokens = std::move(ids), .first_target = length, .only_predicted = 1});
  }
  return text;
}

std::optional<Json> ClassFigures(const std::vector<TokenLoss>& images) {
  const PairedRuns losses = ByWindow(images, [](const TokenLoss& image) { return image.loss; });
  const double nll = Contrast(losses);
  if (!std::isfinite(nll)) return std::nullopt;
  const auto ranks = images | std::views::transform(&TokenLoss::rank) | std::ranges::to<std::vector>();
  Json figures{{"images", images.size()},
               {"nll", nll},
               {"image_losses", losses.sums.front()},
               {"image_counts", std::vector<int64_t>(images.size(), 1)}};
  AddShareBelow(ranks, 1, "acc", figures);
  AddShareBelow(ranks, 5, "acc5", figures);
  return figures;
}

Integers ReadIntegers(const std::filesystem::path& path, const std::string& name, size_t dimensions) {
  if (std::filesystem::is_directory(path)) {
    Integers labels;
    for (const ImageFile& image : FindImages(path)) labels.values.push_back(image.label);
    labels.shape = {std::ssize(labels.values)};
    return labels;
  }
  const std::string where = path.string() + ": " + name;
  const std::unique_ptr<ArrayFile> file = ArrayFile::Open(path);
  const ArrayInfo* const found = file->Find(name);
  if (found == nullptr) Fail("{}: missing; expected integers of {} dimensions", where, dimensions);
  if (found->shape.size() != dimensions || !IsInteger(found->dtype) || std::ranges::contains(found->shape, 0))
    Fail("{}: got {} of {} dimensions, expected integers of {}", where, Name(found->dtype), found->shape.size(),
         dimensions);
  Integers integers{found->shape, {}};
  const ArrayValues values = file->Values(*found);
  const int64_t count = *ElementCount(found->shape);
  for (int64_t i = 0; i < count; ++i) integers.values.push_back(values.Integer(i));
  return integers;
}

std::vector<int64_t> LabelsOf(const std::filesystem::path& file, std::span<const size_t> places, const char* of_what,
                              int64_t below) {
  const std::vector<int64_t> all = ReadIntegers(file, "labels", 1).values;
  std::vector<int64_t> labels;
  for (const size_t place : places) {
    if (place >= all.size())
      Fail("{}: labels: got {}, expected one for each of {} {}", file.string(), all.size(), places.back() + 1, of_what);
    if (all[place] < 0 || all[place] >= below)
      Fail("{}: labels: index {}: got {}, expected 0 to {}", file.string(), place, all[place], below - 1);
    labels.push_back(all[place]);
  }
  return labels;
}

int64_t RankOf(std::span<const float> values, int64_t own) {
  const float mine = values[static_cast<size_t>(own)];
  const auto before = values.first(static_cast<size_t>(own));
  return std::ranges::count_if(values, [mine](float x) { return x > mine; }) + std::ranges::count(before, mine);
}

void AddShareBelow(const std::vector<int64_t>& ranks, int64_t k, const std::string& name, Json& figures) {
  std::string outcomes;
  for (const int64_t rank : ranks) outcomes += rank < k ? '1' : '0';
  AddShare(figures, name, outcomes);
  figures[name + "_outcomes"] = outcomes;
}

constexpr TaskKind kClassifyTask{.name = "classify",
                                 .file = "IMAGES.safetensors",
                                 .what = "accuracy of a classifier of images",
                                 .read = ReadClassify,
                                 .figures = kClassify,
                                 .count = "images",
                                 .unit = "image",
                                 .compared = &kDivergenceTask,
                                 .of_texts = false,
                                 .of_images = true};

// Under the name of its usual images.
constexpr TaskKind kImagenetTask = [] {
  TaskKind task = kClassifyTask;
  task.name = "imagenet";
  task.file = "FOLDER";
  return task;
}();

}  // namespace tare
