// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/page/page.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <set>

#include "experiments/studies/sweep/comparison.h"
#include "quant/base/message.h"
#include "quant/file/json.h"

namespace tare {
namespace {

constexpr std::pair<char, std::string_view> kEntities[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

// Text, also between quotes; bytes that are no UTF-8 become U+FFFD.
std::string Escaped(std::string_view raw) {
  const std::string text = Json::parse(JsonText(std::string(raw))).get<std::string>();
  std::string escaped;
  for (const char c : text) {
    const auto entity = std::ranges::find(kEntities, c, &std::pair<char, std::string_view>::first);
    escaped += entity == std::end(kEntities) ? std::string(1, c) : entity->second;
  }
  return escaped;
}

// The name as an id: letters, digits and "-".
std::string IdOf(const FigureData& figure) {
  std::string id = "figure-";
  for (const char c : figure.name) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return id;
}

constexpr size_t kLong = 40;  // text of a cell that is broken into lines

std::string CellOf(const Json& value) {
  if (value.is_null()) return "<td class=\"number\" data-number=\"NaN\"></td>";
  if (!value.is_number()) {  // what a file has in the place of a number is text, too
    const std::string text = PlainText(value);
    return Formatted("<td{}>{}</td>", text.size() > kLong ? " class=\"long\"" : "", Escaped(text));
  }
  const std::string text = value.is_number_float() ? Formatted("{:.6g}", value.get<double>()) : value.dump();
  return Formatted("<td class=\"number\" data-number=\"{}\">{}</td>", text, text);
}

std::string HtmlOf(const Table& table) {
  std::string html = "<table><thead><tr>";
  for (const Column& column : table.columns)
    html += Formatted("<th scope=\"col\"{}>{}</th>",
                      table.rows.at(0).at(column.name).is_string() ? "" : " class=\"number\"", Escaped(column.title));
  html += "</tr></thead><tbody>\n";
  for (const Json& row : table.rows) {
    html += "<tr>";
    for (const Column& column : table.columns) html += CellOf(row.at(column.name));
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

// A screen reader reads the table instead of the drawing.
std::string FigureOf(const FigureData& figure, Drawing& drawing) {
  const std::string id = IdOf(figure), title = Escaped(figure.title);
  std::string html = Formatted("<section aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>\n", id, title);
  html += Formatted(
      "<figure id=\"{}\">\n<div class=\"drawing\" role=\"img\" aria-label=\"{}; the table below has its "
      "data\">{}</div>\n",
      id, title, drawing.Svg(id, SpecificationOf(figure)));
  html += Formatted("<figcaption>{}</figcaption>\n", Escaped(figure.caption));
  html += Formatted(
      "<div class=\"actions\"></div>\n<details><summary>Data: {}</summary><div class=\"scroll\" tabindex=\"0\" "
      "role=\"region\" aria-label=\"Data of {}\">{}</div></details>\n</figure></section>\n",
      Counted(std::ssize(figure.table.rows), "row"), title, HtmlOf(figure.table));
  return html;
}

// What is shown of equivalence within the sweep's margin: a sentence for each change that is judged.
std::string EquivalencesOf(const Sweep& sweep) {
  std::string html;
  for (const SweepFigure& row : sweep.Figures()) {
    if (!(sweep.comparisons.margin > 0) || row.change == nullptr || !row.change->primary) continue;
    html += Formatted("<li>{}</li>\n",
                      Escaped(Formatted("{} ({}), {}: {}.", row.cell->model, RunName(*row.cell),
                                        FigureOnText(row.cell->task, row.figure->keys.name),
                                        EquivalenceText(sweep.comparisons.margin, *row.change, row.figure->keys))));
  }
  return html;
}

std::string RunsOf(const Material& material, const PageWords& words) {
  std::string html;
  if (!words.command.empty()) html += Formatted("<p>This page: <code>{}</code></p>\n", Escaped(words.command));
  for (const SourceFile& file : material.files) {
    html += Formatted("<h3>{}</h3>\n<dl><dt>schema</dt><dd>{}</dd>", Escaped(file.path), Escaped(file.schema));
    for (const auto& [key, value] : file.says)
      html += Formatted("<dt>{}</dt><dd>{}</dd>", Escaped(key), Escaped(value));
    html += "</dl>\n";
  }
  return html;
}

std::string Sha256Base64(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> encoded{};
  const int length = EVP_EncodeBlock(encoded.data(), digest.data(), static_cast<int>(size));
  return {reinterpret_cast<const char*>(encoded.data()), static_cast<size_t>(length)};
}

}  // namespace

std::string ReportPage(const PageWords& words, const Material& material, const std::vector<FigureData>& figures,
                       Drawing& drawing) {
  std::string findings, missing, contents, sections;
  std::set<std::string> said;
  for (const FigureData& figure : figures) {
    const std::string id = IdOf(figure);
    for (const std::string& finding : figure.findings) {
      if (!said.insert(finding).second) continue;
      findings += Formatted("<li>{} <a href=\"#{}\" aria-label=\"to the figure {}\">figure</a></li>\n",
                            Escaped(finding), id, Escaped(figure.title));
    }
    for (const std::string& one : MissingOf(figure))
      missing += Formatted("<li>{}: {} <a href=\"#{}\" aria-label=\"to the figure {}\">figure</a></li>\n",
                           Escaped(figure.title), Escaped(one), id, Escaped(figure.title));
    contents += Formatted("<li><a href=\"#{}\">{}</a></li>\n", id, Escaped(figure.title));
    sections += FigureOf(figure, drawing);
  }
  for (const Sweep& sweep : material.sweeps) findings += EquivalencesOf(sweep);
  const std::string script(Embedded("report.js"));
  return Filled(Embedded("report.html"),
                {{"title", Escaped(words.title)},
                 {"version", Escaped(words.version)},
                 {"subtitle", Escaped(Formatted("{} from {}; tare {}", Counted(std::ssize(figures), "figure"),
                                                Counted(std::ssize(material.files), "file"), words.version))},
                 {"style", std::string(Embedded("report.css"))},
                 {"script", script},
                 {"script_sha256", Sha256Base64(script)},
                 {"findings", findings},
                 {"missing", missing.empty() ? "" : "<h3>What could not be drawn</h3>\n<ul>\n" + missing + "</ul>"},
                 {"contents", contents},
                 {"figures", sections},
                 {"runs", RunsOf(material, words)}});
}

}  // namespace tare
