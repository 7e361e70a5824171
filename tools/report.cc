// SPDX-License-Identifier: Apache-2.0
// tare report: figures from the results of other commands, on one page; tare plot: one of them, for a paper.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <ranges>

#include "experiments/report/drawing/interpreter.h"
#include "experiments/report/figures/figures.h"
#include "experiments/report/page/page.h"
#include "quant/file/mapped_file.h"
#include "quant/file/output_folder.h"
#include "tools/command.h"

namespace tare {

namespace {

// What messages call the files where it may be any of them.
std::string OneOf(const std::vector<std::string>& files) {
  return (files.size() == 1 ? "" : "one of ") + Listed(files, ", ");
}

// ---- report

struct ReportArguments {
  std::vector<std::string> files;
  std::string out, title;
};

void Run(const ReportArguments& options) try {
  const std::vector<AtomicFile> claims =
      ClaimFiles(options.files, {{options.out, "<!doctype html>*<meta name=\"generator\" content=\"tare "}});
  const Material material = ReadMaterial({options.files.begin(), options.files.end()});
  std::vector<FigureData> figures;
  for (const FigureKind& kind : kFigureKinds) {
    ThrowIfStopped();
    for (FigureData& figure : kind.make(material)) {
      if (figure.on_page) figures.push_back(std::move(figure));
    }
  }
  if (figures.empty())
    Fail("{}: got nothing to draw a figure from, expected statistics, a sweep, an evaluation or a benchmark",
         options.files.front());
  Drawing drawing;
  const PageWords words{options.title, TARE_VERSION,
                        "tare report " + Listed(options.files, " ") + " --out " + options.out};
  const std::string page = ReportPage(words, material, figures, drawing);
  WriteFileAtomically(options.out, page);
  PrintLine("{}: {}, {}", Made(options.out), Counted(std::ssize(figures), "figure"), SizeText(std::ssize(page)));
} catch (const Json::exception& error) {
  RefuseOdd(OneOf(options.files), error);
}

// ---- plot

struct PlotArguments {
  std::vector<std::string> files;
  std::string figure, out;
};

// What rsvg-convert makes of an SVG: a PDF with text and embedded fonts, or a PNG of three pixels for one, on white for
// black text. Tare knows its own by a mark: in a PDF's second line, a comment of four bytes above 127 that says it is
// no text, "tare"; in a PNG a text chunk, with its CRC, after the header of 33 bytes.
struct Conversion {
  std::string_view ending, magic, mark;
  std::array<const char*, 3> options;
};
constexpr Conversion kConversions[] = {{".pdf", "%PDF", "\n%\xF4\xE1\xF2\xE5\n", {"--format=pdf"}},
                                       {".png",
                                        "\x89PNG",
                                        {"\0\0\0\x0DtEXtSoftware\0Tare\x17\x04\x10\xCA", 25},
                                        {"--format=png", "--zoom=3", "--background-color=white"}}};

const Conversion* ConversionOf(const std::string& out) {
  const auto* const found =
      std::ranges::find_if(kConversions, [&](const auto& to) { return out.ends_with(to.ending); });
  return found == std::end(kConversions) ? nullptr : found;
}

std::string Marked(std::string file, const Conversion& to) {
  if (!file.starts_with(to.magic)) return file;
  if (to.ending == ".png") return file.insert(std::min<size_t>(33, file.size()), to.mark);
  const size_t line = file.find("\n%");
  if (line != file.npos && file.find('\n', line + 1) == line + to.mark.size() - 1)
    file.replace(line, to.mark.size(), to.mark);
  return file;
}

std::string Converted(const std::string& svg, const Conversion& to) {
  const AtomicFolder passing(std::filesystem::temp_directory_path() / Formatted("tare-plot-{}", getpid()));
  const std::string in = passing.path() / "in.svg", out = passing.path() / "out";
  WriteFileAtomically(in, svg);
  std::vector<const char*> argv{"rsvg-convert", "--output", out.c_str(), in.c_str()};
  argv.insert(argv.end(), to.options.begin(), to.options.end());
  argv.push_back(nullptr);
  pid_t process = 0;
  int status = 0;
  if (posix_spawnp(&process, argv[0], nullptr, nullptr, const_cast<char* const*>(argv.data()), environ) != 0)
    Fail("rsvg-convert: not found, and a {} file needs it; try `apt install librsvg2-bin`, or F.svg", to.ending);
  const bool ended = waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!ended) Fail("rsvg-convert: failed; try F.svg");
  return Marked(std::string(MappedFile(out).text()), to);
}

void Draw(const FigureData& figure, const std::string& out) {
  std::string drawn = Drawing().Svg(figure.Kind(), SpecificationOf(figure));
  if (const Conversion* const to = ConversionOf(out)) drawn = Converted(drawn, *to);
  WriteFileAtomically(out, drawn);
  for (const std::string& missing : MissingOf(figure)) Notice(figure.name + ": not drawn: " + missing);
  PrintText("{}", Paragraphs(Made(out) + ": " + figure.caption));
}

// The figures of a kind, "" if there are none: all names if the kind was asked for, otherwise a few of many.
std::string RowOf(const FigureKind& kind, const std::vector<FigureData>& figures, const std::string& asked) {
  constexpr size_t kFew = 3;
  const size_t count = figures.size(), shown = asked == kind.name || count <= kFew + 1 ? count : kFew;
  if (count == 0) return "";
  std::string names = Listed(figures | std::views::take(shown) | std::views::transform(&FigureData::name), " ");
  if (shown < count) names += Formatted(" and {} more: --figure {}", count - shown, kind.name);
  return count == 1 ? HelpRow(names, std::string(kind.what), 16) : Paragraphs("  " + names);
}

void Run(const PlotArguments& options) try {
  const Conversion* const to = ConversionOf(options.out);
  const std::vector<AtomicFile> claims =
      ClaimFiles(options.files,
                 {{options.out, to ? std::string(to->magic) + "*" + std::string(to->mark) : "<svg *svg.marks:root{"}});
  const Material material = ReadMaterial({options.files.begin(), options.files.end()});
  std::string known;
  for (const FigureKind& kind : kFigureKinds) {
    const std::vector<FigureData> figures = kind.make(material);
    const auto figure = std::ranges::find(figures, options.figure, &FigureData::name);
    if (figure != figures.end() && options.out.empty()) throw CLI::RequiredError("--out");
    if (figure != figures.end()) return Draw(*figure, options.out);
    known += RowOf(kind, figures, options.figure);
  }
  if (known.empty()) Fail("{}: got nothing to draw a figure from", options.files.front());
  known.pop_back();  // the end of its last line
  FailUsage("--figure: {}, expected one of:\n{}",
            options.figure.empty() ? "got none" : "the files have no data for " + options.figure, known);
} catch (const Json::exception& error) {
  RefuseOdd(OneOf(options.files), error);
}

}  // namespace

void AddReport(CLI::App& app) {
  const auto [command, options] =
      NewCommand<ReportArguments>(app, "report", "draw figures and tables of results on a page for a browser", Run);
  Add(command, "FILE", options.files,
      "statistics and dumps (.h5), --out folders, and --json of stats, judge, eval, maps, bench and inspect")
      ->required();
  Add(command, "--out FILE", options.out, "page to write (.html)")->required();
  Add(command, "--title WORDS", options.title, "title of the page")->default_val("Low-bit quantization, measured");
}

void AddPlot(CLI::App& app) {
  const auto [command, options] =
      NewCommand<PlotArguments>(app, "plot", "draw one figure of the report as SVG, PDF or PNG", Run);
  Add(command, "FILE", options.files, "the same files as tare report")->required();
  Add(command, "--figure NAME", options.figure, "name of the figure; without it, those that the files have are listed")
      ->expected(0, 1);
  Add(command, "--out FILE", options.out, "F.svg, F.pdf or F.png")->check([](const std::string& out) {
    return out.ends_with(".svg") || ConversionOf(out) != nullptr
               ? std::string()
               : Formatted("got '{}', expected a name that ends in .svg, .pdf or .png", out);
  });
  std::string figures = "Figures:";
  for (const FigureKind& kind : kFigureKinds) figures += Formatted("\n  {:<12}{}", kind.name, kind.what);
  command.footer(figures);
}

}  // namespace tare
