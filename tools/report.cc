// SPDX-License-Identifier: Apache-2.0
// tare report: figures from the results of other commands, on one page; tare plot: one of them, for a paper.
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/report/drawing/drawing.h"
#include "experiments/report/figures/figures.h"
#include "experiments/report/page/page.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "tools/command.h"
#include "tools/help.h"

namespace tare {

namespace {

// Well-formed JSON that no command writes: a value of another kind, or none where one is.
[[noreturn]] void RefuseOdd(const std::vector<std::string>& files, const std::exception& error) {
  Fail("{}: {}; was {} made by another version? Try making it again", Listed(files, ", "), error.what(),
       files.size() == 1 ? "it" : "one");
}

}  // namespace

// ---- report

namespace {

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
  RefuseOdd(options.files, error);
}

}  // namespace

void AddReport(CLI::App& app) {
  const auto [command, options] =
      NewCommand<ReportArguments>(app, "report", "draw figures and tables of results on a page for a browser", Run);
  Add(command, "FILE", options.files,
      "statistics and dumps (.h5), --out folders, and --json of stats, eval, maps, bench and inspect")
      ->required();
  Add(command, "--out FILE", options.out, "page to write (.html)")->required();
  Add(command, "--title WORDS", options.title, "title of the page")->default_val("Low-bit quantization, measured");
  command.footer(Examples(
      {"tare report standard.h5 differential.h5 sweep --out report.html", "tare report compared --out compared.html"}));
}

// ---- plot

namespace {

struct PlotArguments {
  std::vector<std::string> files;
  std::string figure, out;
};

// An unnamed file, for the input and output of another program.
class MemoryFile {
 public:
  explicit MemoryFile(const char* what) : fd_(memfd_create(what, 0)) {
    if (fd_ < 0) Fail("{}: not enough memory for a file; try again when more is free", what);
  }
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }
  int fd() const { return fd_; }

  void Put(std::string_view text) {
    if (pwrite(fd_, text.data(), text.size(), 0) != std::ssize(text)) Fail("a drawing: not enough memory for its file");
  }
  std::string Get() const {
    std::string text(static_cast<size_t>(lseek(fd_, 0, SEEK_END)), '\0');
    text.resize(static_cast<size_t>(std::max<ssize_t>(0, pread(fd_, text.data(), text.size(), 0))));
    return text;
  }

 private:
  int fd_;
};

// A PDF's second line is a comment of four bytes above 127, so that nobody takes the file for text: here "tare".
constexpr std::string_view kPdfMark = "\n%\xF4\xE1\xF2\xE5\n";

// Text stays text; the file embeds this machine's fonts.
std::string PdfOf(const std::string& svg) {
  MemoryFile in("svg"), out("pdf");
  in.Put(svg);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  std::string arguments[] = {"rsvg-convert", "--format=pdf"};
  char* const argv[] = {arguments[0].data(), arguments[1].data(), nullptr};
  pid_t process = 0;
  int status = 0;
  const bool started = posix_spawnp(&process, argv[0], &actions, nullptr, argv, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  if (!started) Fail("rsvg-convert: not found, and a PDF needs it; try `apt install librsvg2-bin`, or F.svg");
  const bool ended = waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!ended) Fail("rsvg-convert: failed; try F.svg");
  std::string pdf = out.Get();
  const size_t line = pdf.find("\n%");
  if (line != pdf.npos && pdf.find('\n', line + 1) == line + kPdfMark.size() - 1)
    pdf.replace(line, kPdfMark.size(), kPdfMark);
  return pdf;
}

void Run(const PlotArguments& options) try {
  const bool pdf = options.out.ends_with(".pdf");
  const std::vector<AtomicFile> claims =
      ClaimFiles(options.files, {{options.out, pdf ? "%PDF*" + std::string(kPdfMark) : "<svg *svg.marks:root{"}});
  const Material material = ReadMaterial({options.files.begin(), options.files.end()});
  std::string known;
  for (const FigureKind& kind : kFigureKinds) {
    for (const FigureData& figure : kind.make(material)) {
      known += (known.empty() ? "" : " ") + figure.name;
      if (figure.name != options.figure) continue;
      const std::string svg = Drawing().Svg(figure.Kind(), SpecificationOf(figure));
      WriteFileAtomically(options.out, pdf ? PdfOf(svg) : svg);
      for (const std::string& missing : MissingOf(figure)) Notice(figure.name + ": not drawn: " + missing);
      return PrintText("{}", Paragraphs(Made(options.out) + ": " + figure.caption));
    }
  }
  FailUsage("--figure {}: the files have no data for it, expected one of: {}", options.figure, known);
} catch (const Json::exception& error) {
  RefuseOdd(options.files, error);
}

}  // namespace

void AddPlot(CLI::App& app) {
  const auto [command, options] =
      NewCommand<PlotArguments>(app, "plot", "draw one figure of the report as SVG or PDF", Run);
  Add(command, "FILE", options.files, "the same files as tare report")->required();
  Add(command, "--figure NAME", options.figure, "name of the figure, from the list below")->required();
  Add(command, "--out FILE", options.out, "F.svg or F.pdf")->required()->check([](const std::string& out) {
    return out.ends_with(".svg") || out.ends_with(".pdf")
               ? std::string()
               : Formatted("got '{}', expected a name that ends in .svg or .pdf", out);
  });
  std::string figures = "Figures:";
  for (const FigureKind& kind : kFigureKinds) figures += Formatted("\n  {:<12}{}", kind.name, kind.what);
  command.footer(figures + "\n\n" +
                 Examples({"tare plot sweep --figure bits --out bits.svg",
                           "tare plot S.h5 --figure maps:probs.entropy --out maps.pdf"}));
}

}  // namespace tare
