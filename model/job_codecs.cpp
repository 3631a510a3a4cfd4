#include "model/job_codecs.hpp"

#include "base/number.hpp"
#include "model/files/csv_columns.hpp"

namespace troupe::model::codecs {

// -- numbers ---------------------------------------------------------------------------------------------------------

result<std::uint64_t> read_whole(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto number = parse_number<std::uint64_t>(text);
  if (number && *number >= low && *number <= high) return *number;
  // Digits, perhaps after a sign: a whole number out of range.
  const auto digits = text.substr(text.starts_with('-') || text.starts_with('+') ? 1 : 0);
  const bool is_whole = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  return bad_input("must be {}between {} and {}", is_whole ? "" : "a whole number ", low, high);
}

namespace {

result<double> read_real(std::string_view text, double high, bool zero_allowed) {
  const auto number = parse_number<double>(text);
  if (number && *number <= high && (zero_allowed ? *number >= 0 : *number > 0)) return *number;
  return bad_input("must be {}{}{:.0f}", number ? "" : "a number ",
                   zero_allowed ? "between 0 and " : "above 0 and at most ", high);
}

/// Prefixes a number's fault with the part of a setting's text that it is about.
template <class T>
result<T> named(const char* part, result<T> number) {
  return std::move(number).map_error([part](const fault& wrong) { return fault{wrong.kind, part + wrong.message}; });
}

/// Reads whole numbers separated by commas; null: a number is out of range, or there are more than `most`.
std::optional<std::vector<std::size_t>> read_list(std::string_view text, std::uint64_t low, std::uint64_t high,
                                                  std::size_t most) {
  std::vector<std::size_t> numbers;
  for (const auto part : split(text, ',')) {
    const auto number = read_whole(part, low, high);
    if (!number || numbers.size() == most) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

text_form<double> real_number(double high, bool zero_allowed) {
  return {.read = [=](std::string_view text) { return read_real(text, high, zero_allowed); },
          .type = setting_type::real};
}

text_form<double> share_of_rows() {
  return {.read = [](std::string_view text) -> result<double> {
            const auto share = parse_number<double>(text);
            if (!share || !(*share >= 0 && *share < 1)) return bad_input("must be a number of at least 0 and below 1");
            return *share;
          },
          .type = setting_type::real};
}

// -- special spellings -----------------------------------------------------------------------------------------------

text_form<std::uint32_t> consistency_mode() {
  return {[](std::string_view text) -> result<std::uint32_t> {
            constexpr std::string_view ssp = "ssp:";
            constexpr std::uint32_t steps_max = 1000;
            if (text == "sync") return 0;
            if (text == "async") return any_staleness;
            if (!text.starts_with(ssp)) return bad_input("must be sync, ssp:K (such as ssp:2) or async");
            return named("the number of steps ", read_whole(text.substr(ssp.size()), 0, steps_max));
          },
          [](std::uint32_t steps) {
            return steps == 0 ? "sync" : steps == any_staleness ? "async" : fmt::format("ssp:{}", steps);
          }};
}

text_form<std::string> any_text(setting_type type) {
  return {.read = [](std::string_view text) -> result<std::string> {
            if (text.empty()) return bad_input("must not be empty");
            return std::string(text);
          },
          .type = type};
}

text_form<char> separator() {
  return {[](std::string_view text) -> result<char> {
            if (text == "tab") return '\t';
            if (!is_separator(text) || text == "\"") return bad_input("must be tab, or {} or a quote", separator_limit);
            return text.front();
          },
          [](char separator) { return separator == '\t' ? "tab" : std::string(1, separator); }};
}

text_form<double> id_skew() {
  return {[](std::string_view text) -> result<double> {
            constexpr double exponent_max = 10;
            constexpr std::string_view zipf = "zipf:";
            if (text == "uniform") return 0;
            if (!text.starts_with(zipf)) return bad_input("must be uniform or zipf:S, such as zipf:1.1");
            return named("the exponent ", read_real(text.substr(zipf.size()), exponent_max, false));
          },
          [](double exponent) { return exponent == 0 ? "uniform" : fmt::format("zipf:{}", exponent); }};
}

text_form<std::vector<std::size_t>> layer_widths() {
  return {[](std::string_view text) -> result<std::vector<std::size_t>> {
            constexpr std::size_t layers_max = 64;
            constexpr std::uint64_t width_max = 65536;
            if (text == "none") return {};
            if (auto widths = read_list(text, 1, width_max, layers_max)) return std::move(*widths);
            return bad_input(
                "must be none, or up to {} whole numbers between 1 and {} with commas between them, such as 64,32",
                layers_max, width_max);
          },
          widths_text, setting_type::widths};
}

text_form<std::vector<std::size_t>> stage_begins() {
  return {[](std::string_view text) -> result<std::vector<std::size_t>> {
            constexpr std::uint64_t layer_max = 65535;
            auto begins = read_list(text, 0, layer_max, stages_max);
            if (begins && begins->front() == 0 &&
                std::ranges::adjacent_find(*begins, std::greater_equal()) == begins->end())
              return std::move(*begins);
            return bad_input("must be up to {} layer numbers that begin at 0 and rise, such as 0,3,5", stages_max);
          },
          widths_text, setting_type::widths};
}

text_form<loss_choice> loss_name() {
  constexpr std::array usual = {"cross-entropy", "bce-logits", "mse"};  // by value
  return {[=](std::string_view text) -> result<loss_choice> {
            std::vector<std::string> names(usual.begin(), usual.end());
            if (const auto known = std::ranges::find(names, text); known != names.end())
              return loss_choice(static_cast<loss_kind>(known - names.begin()));
            for (const auto& one : nn::added_losses()) {
              if (one->name == text) return loss_choice(one);
              names.push_back(one->name);
            }
            return bad_input("unknown; {}", suggestions(std::string(text), names));
          },
          [=](const loss_choice& chosen) {
            return chosen.own ? chosen.own->name : std::string(usual.at(static_cast<std::size_t>(chosen.kind)));
          }};
}

namespace {

result<std::shared_ptr<const nn::own_metric>> metric_named(std::string_view name) {
  constexpr const char* advice =
      "a program adds metrics by nn::add_metric, and all processes of a run are that program";
  const nn::own_metrics added = nn::added_metrics();
  const auto found = std::ranges::find(added, name, [](const auto& one) { return std::string_view(one->name); });
  if (found != added.end()) return *found;
  if (added.empty()) return bad_input("unknown metric {}; this program has none; {}", printable(name), advice);
  const auto names = names_in(added, [](const auto& one) { return one->name; });
  return bad_input("unknown metric {}; {}; {}", printable(name), suggestions(name, names), advice);
}

}  // namespace

text_form<nn::own_metrics> metric_names() {
  return {[](std::string_view text) -> result<nn::own_metrics> {
            nn::own_metrics all;
            if (text == "none") return all;
            for (const std::string_view name : split(text, ',')) {
              TROUPE_TRY(one, metric_named(name));
              if (std::ranges::find(all, one) != all.end()) return bad_input("'{}' is given twice", one->name);
              all.push_back(std::move(one));
            }
            if (all.size() > nn::metrics_max)
              return bad_input("are {} metrics; a job has at most {}", all.size(), nn::metrics_max);
            return all;
          },
          [](const nn::own_metrics& all) {
            return fmt::format("{}", fmt::join(names_in(all, [](const auto& one) { return one->name; }), ","));
          },
          setting_type::names};
}

text_form<std::vector<nn::layer_spec>> layer_list() {
  return {[](std::string_view text) -> result<std::vector<nn::layer_spec>> {
            auto layers = nn::parse_layers(text);
            if (layers && layers->empty())
              return bad_input("must have at least 1 layer; leave it out for an MLP of --hidden");
            return layers;
          },
          nn::to_json, setting_type::entries};
}

text_form<optimizer_options> optimizer(optimizer_use use) {
  return {[use](std::string_view text) {
            return parse_optimizer(text, use).map([](const optimizer_spec& spec) { return spec.options; });
          },
          [](const optimizer_options& options) { return to_string(optimizer_spec{options}); }};
}

text_form<elasticity> elastic_range() {
  return {[](std::string_view text) -> result<elasticity> {
            const auto colon = std::min(text.find(':'), text.size());
            const auto least = read_whole(text.substr(0, colon), 1, actors_max);
            const auto most =
                colon == text.size() || !least ? least : read_whole(text.substr(colon + 1), *least, actors_max);
            if (colon == text.size() || !most)
              return bad_input("must be MIN:MAX, two whole numbers between 1 and {}, such as 1:8", actors_max);
            return elasticity{static_cast<std::uint32_t>(*least), static_cast<std::uint32_t>(*most), {}};
          },
          [](const elasticity& range) { return fmt::format("{}:{}", range.trainers_min, range.trainers_max); }};
}

}  // namespace troupe::model::codecs
