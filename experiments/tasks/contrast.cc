// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/contrast.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/arrays/array_file.h"
#include "experiments/tasks/classify.h"
#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// A sequence, which of its rows is the embedding, and where it is in the file.
struct Item {
  std::vector<int32_t> ids;
  int64_t read = 0;
  size_t place = 0;
};

std::vector<Item> PromptsOf(const std::filesystem::path& file, const ModelConfig& config) {
  const Integers prompts = ReadIntegers(file, "prompts", 2);
  const int64_t length = prompts.shape[1];
  if (length > config.max_positions)
    Fail("{}: prompts: got {} tokens, expected at most max_position_embeddings {}", file.string(), length,
         config.max_positions);
  std::vector<Item> items(static_cast<size_t>(prompts.shape[0]));
  for (size_t i = 0; i < prompts.values.size(); ++i) {
    const int64_t id = prompts.values[i];
    Item& item = items[i / static_cast<size_t>(length)];
    if (id < 0 || id >= config.vocabulary)
      Fail("{}: prompts: row {}: got id {}, expected 0 to {}", file.string(), i / static_cast<size_t>(length), id,
           config.vocabulary - 1);
    item.place = i / static_cast<size_t>(length);
    item.ids.push_back(static_cast<int32_t>(id));
    if (id > item.ids[static_cast<size_t>(item.read)]) item.read = std::ssize(item.ids) - 1;
  }
  return items;
}

std::vector<Item> ImagesOf(const std::filesystem::path& file, Model& tower, const WindowOptions& options) {
  const auto images = std::make_shared<const Images>(file, tower.config());
  tower.Show(images);
  std::vector<Item> items;
  const auto count = static_cast<size_t>(images->size()), limit = static_cast<size_t>(options.limit);
  for (const size_t place : TakenPlaces(count, limit, options.Part()))
    items.push_back({.ids = images->Sequence(static_cast<int64_t>(place)), .read = 0, .place = place});
  return items;
}

void Normalize(float* row, int64_t width, size_t place) {
  double squares = 0;
  for (int64_t i = 0; i < width; ++i) squares += double{row[i]} * row[i];
  if (!(squares > 0) || !std::isfinite(squares))
    Fail("item {}: got an embedding of length {}, expected a finite one above 0; try `tare stats` to see where", place,
         std::sqrt(squares));
  for (int64_t i = 0; i < width; ++i) row[i] = static_cast<float>(row[i] / std::sqrt(squares));
}

// Cosines of a's row with every row of b.
std::vector<float> CosinesOf(const Embeddings& a, int64_t row, const Embeddings& b) {
  std::vector<float> cosines(static_cast<size_t>(b.rows()));
  for (int64_t j = 0; j < b.rows(); ++j) {
    double sum = 0;
    for (int64_t i = 0; i < a.width; ++i) sum += double{a.values[row * a.width + i]} * b.values[j * b.width + i];
    cosines[static_cast<size_t>(j)] = static_cast<float>(sum);
  }
  return cosines;
}

// The best rank among b of each row of a that has columns of its own, own[row].
std::vector<int64_t> BestRanks(const Embeddings& a, const Embeddings& b, const std::vector<std::vector<int64_t>>& own) {
  std::vector<int64_t> ranks(own.size(), std::numeric_limits<int64_t>::max());
  ParallelFor(own.size(), [&](size_t row, int) {
    const std::vector<float> cosines = CosinesOf(a, static_cast<int64_t>(row), b);
    for (const int64_t column : own[row]) ranks[row] = std::min(ranks[row], RankOf(cosines, column));
  });
  std::erase(ranks, std::numeric_limits<int64_t>::max());
  return ranks;
}

// Prompts of an image are not independent: image_right, image_right5 (those that find it), image_prompts (all, if any).
void AddByImage(const std::vector<int64_t>& ranks, const std::vector<std::vector<int64_t>>& of_image, Json& figures) {
  std::vector<int64_t> prompts, right, right5;
  for (const std::vector<int64_t>& own : of_image) {
    if (own.empty()) continue;
    const auto below = [&](int64_t k) {
      return std::ranges::count_if(own, [&](int64_t prompt) { return ranks[static_cast<size_t>(prompt)] < k; });
    };
    prompts.push_back(std::ssize(own));
    right.push_back(below(1));
    right5.push_back(below(5));
  }
  figures.update({{"image_prompts", prompts}, {"image_right", right}, {"image_right5", right5}});
}

// The other tower's side of a task, computed once.
struct OtherSide {
  Embeddings embeddings;
  std::string sha256;
};

OtherSide RunOther(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  Model other(OtherTower(of, options));
  if (other.config().projection == 0 || other.config().SeesImages() == of.config().SeesImages())
    Fail("other tower: got {}, a {}, expected the {} tower that belongs to {}", other.Name(), other.config().family,
         of.config().SeesImages() ? "text" : "vision", of.Name());
  if (other.config().projection != of.config().projection)
    Fail("other tower: got {} with projection_dim {}, expected {} as of {}", other.Name(), other.config().projection,
         of.config().projection, of.Name());
  return {EmbedAll(other, {}, file, options.windows, {}), other.files().ContentHash()};
}

using Compare = Json (*)(const std::filesystem::path& file, const Embeddings& images, const Embeddings& prompts);

template <Compare kCompare>
RunTask Contrast(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  return [file, windows = options.windows, other = RunOther(file, of, options)](Model& tower, PlanRun& run,
                                                                                const Progress& progress) {
    const Embeddings own = EmbedAll(tower, run.Begin(tower, progress), file, windows, progress);
    const bool images = tower.config().SeesImages();
    const Embeddings &seen = images ? own : other.embeddings, &prompts = images ? other.embeddings : own;
    TaskResult result{.figures = kCompare(file, seen, prompts), .records = {}};
    result.figures["images"] = seen.rows();
    result.figures["prompts"] = prompts.rows();
    result.figures["other_tower_sha256"] = other.sha256;
    return result;
  };
}

Json Classify(const std::filesystem::path& file, const Embeddings& images, const Embeddings& prompts) {
  const std::vector<int64_t> labels = LabelsOf(file, images.places, "images", prompts.rows());
  std::vector<std::vector<int64_t>> own;
  for (const int64_t label : labels) own.push_back({label});
  const std::vector<int64_t> ranks = BestRanks(images, prompts, own);
  Json figures;
  AddShareBelow(ranks, 1, "acc", figures);
  AddShareBelow(ranks, 5, "acc5", figures);
  return figures;
}

Json Retrieve(const std::filesystem::path& file, const Embeddings& images, const Embeddings& prompts) {
  const std::vector<int64_t> labels = LabelsOf(file, prompts.places, "prompts", images.rows());
  std::vector<std::vector<int64_t>> of_prompt, of_image(static_cast<size_t>(images.rows()));
  for (size_t prompt = 0; prompt < labels.size(); ++prompt) {
    of_prompt.push_back({labels[prompt]});
    of_image[static_cast<size_t>(labels[prompt])].push_back(static_cast<int64_t>(prompt));
  }
  const std::vector<int64_t> images_found = BestRanks(prompts, images, of_prompt),
                             texts_found = BestRanks(images, prompts, of_image);
  Json figures;
  AddShareBelow(images_found, 1, "image_r1", figures);
  AddShareBelow(images_found, 5, "image_r5", figures);
  if (std::ranges::any_of(of_image, [](const auto& prompts_of_one) { return prompts_of_one.size() > 1; }))
    AddByImage(images_found, of_image, figures);
  AddShareBelow(texts_found, 1, "text_r1", figures);
  AddShareBelow(texts_found, 5, "text_r5", figures);
  return figures;
}

RunTask ReadRetrieval(const std::filesystem::path& file, const Model& of, const TaskOptions& options) {
  if (options.windows.limit != 0)
    FailUsage("--limit: got one for {}, expected none: a subset of the images is another task", file.string());
  return Contrast<Retrieve>(file, of, options);
}

std::string HowContrast(const Json& result) {
  return Formatted("{} and {}; the other tower runs as stored", Counted(result.at("images"), "image"),
                   Counted(result.at("prompts"), "prompt"));
}

constexpr FigureKeys kZeroShot[] = {{.name = "acc", .error = "acc_stderr", .outcomes = "acc_outcomes"},
                                    {.name = "acc5", .error = "acc5_stderr", .outcomes = "acc5_outcomes"}};
constexpr WindowKeys kOfImage = OfSamples("image_right", "image_prompts"),
                     kOfImage5 = OfSamples("image_right5", "image_prompts");
constexpr FigureKeys kRetrieval[] = {
    {.name = "image_r1", .error = "image_r1_stderr", .outcomes = "image_r1_outcomes", .windows = kOfImage},
    {.name = "image_r5", .error = "image_r5_stderr", .outcomes = "image_r5_outcomes", .windows = kOfImage5},
    {.name = "text_r1", .error = "text_r1_stderr", .outcomes = "text_r1_outcomes"},
    {.name = "text_r5", .error = "text_r5_stderr", .outcomes = "text_r5_outcomes"}};

constexpr TaskKind OfTowers(std::string_view name, std::string_view what, decltype(TaskKind::read) read,
                            std::span<const FigureKeys> figures) {
  return {.name = name,
          .file = "IMAGES.safetensors",
          .what = what,
          .read = read,
          .figures = figures,
          .count = "images",
          .unit = "image",
          .how = HowContrast,
          .of_texts = false,
          .of_towers = true,
          .beside = OtherTower};
}

}  // namespace

std::filesystem::path OtherTower(const Model& tower, const TaskOptions& options) {
  if (!options.other_tower.empty()) return options.other_tower;
  const bool images = tower.config().SeesImages();
  const std::string own = images ? "vision" : "text", other = images ? "text" : "vision";
  std::string name = tower.folder().filename().string();
  if (const size_t at = name.rfind(own); at != std::string::npos) {
    const std::filesystem::path beside = tower.folder().parent_path() / name.replace(at, own.size(), other);
    if (std::filesystem::exists(beside)) return beside;
  }
  FailUsage("--other-tower: got no {} tower beside {}, expected {}; try --other-tower MODEL", other,
            tower.folder().string(), own == name ? other : "the same name with " + other + " for " + own);
}

Embeddings EmbedAll(Model& tower, SiteVisitors visitors, const std::filesystem::path& file,
                    const WindowOptions& options, const Progress& progress) {
  const bool images = tower.config().SeesImages();
  const std::vector<Item> items = images ? ImagesOf(file, tower, options) : PromptsOf(file, tower.config());
  const int64_t step = std::max<int64_t>(1, 2048 / std::ssize(items.front().ids)), width = tower.config().Outputs();
  Embeddings all{.width = width, .values = {}, .places = {}};
  all.values.resize(items.size() * static_cast<size_t>(width));
  for (const Item& item : items) all.places.push_back(item.place);
  for (int64_t begin = 0; begin < std::ssize(items); begin += step) {
    TokenBatch batch;
    std::vector<int64_t> rows;
    const int64_t end = std::min(begin + step, std::ssize(items));
    for (int64_t i = begin; i < end; ++i) {
      const Item& item = items[static_cast<size_t>(i)];
      rows.push_back(batch.Add(i, item.ids) + item.read);
    }
    tower.Forward(batch, visitors);
    tower.VocabularyLogits(rows, [&](size_t i, const float* values, int) {
      const int64_t item = begin + static_cast<int64_t>(i);
      float* const row = all.values.data() + item * width;
      std::copy_n(values, width, row);
      Normalize(row, width, all.places[static_cast<size_t>(item)]);
    });
    Report(progress, end, std::ssize(items), images ? "images" : "prompts");
  }
  return all;
}

constexpr TaskKind kZeroShotTask =
    OfTowers("zero_shot", "accuracy of CLIP's zero-shot classes", Contrast<Classify>, kZeroShot);
constexpr TaskKind kRetrievalTask =
    OfTowers("retrieval", "recall of CLIP's images and texts", ReadRetrieval, kRetrieval);

}  // namespace tare
