// SPDX-License-Identifier: Apache-2.0
// tare report: figures from the results of other commands, on one page.
#include "experiments/report/figures/figures.h"
#include "experiments/report/page/page.h"
#include "experiments/text/grammar.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/help.h"

namespace tare {
namespace {

struct ReportArguments {
  std::vector<std::string> files;
  std::string out, title;
};

void Run(const ReportArguments& options) {
  const std::vector<AtomicFile> claims = ClaimFiles(options.files, {options.out});
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
  std::string command = "tare report";
  for (const std::string& file : options.files) command += " " + file;
  Drawing drawing;
  const PageWords words{options.title, TARE_VERSION, command + " --out " + options.out};
  const std::string page = ReportPage(words, material, figures, drawing);
  WriteFileAtomically(options.out, page);
  PrintLine("{}: {}, {}", options.out, Counted(std::ssize(figures), "figure"), SizeText(std::ssize(page)));
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

}  // namespace tare
