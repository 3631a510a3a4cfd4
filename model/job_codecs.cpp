#include "model/job_codecs.hpp"

#include "base/text.hpp"
#include "model/files/csv_columns.hpp"

namespace troupe::model::codecs {

// -- numbers ---------------------------------------------------------------------------------------------------------

setting_fault read_real(double& to, std::string_view text, double high, bool zero_allowed) {
  const auto number = parse_number<double>(text);
  if (number && *number <= high && (zero_allowed ? *number >= 0 : *number > 0)) {
    to = *number;
    return std::nullopt;
  }
  return fmt::format("must be {}{}{:.0f}", number ? "" : "a number ",
                     zero_allowed ? "between 0 and " : "above 0 and at most ", high);
}

// -- names -----------------------------------------------------------------------------------------------------------

setting_fault unknown_name(std::string_view text, const std::vector<std::string>& names) {
  return fmt::format("unknown; the nearest is {}, and there are {}", nearest(std::string(text), names),
                     alternatives(names));
}

codec consistency_mode() {
  return {[](job& to, std::string_view text) -> setting_fault {
            constexpr std::string_view ssp = "ssp:";
            constexpr std::uint32_t steps_max = 1000;
            if (text == "sync") {
              to.staleness = 0;
            } else if (text == "async") {
              to.staleness = any_staleness;
            } else if (text.starts_with(ssp)) {
              auto refused = read_whole(to.staleness, text.substr(ssp.size()), 0, steps_max);
              return refused ? setting_fault("the number of steps " + *refused) : std::nullopt;
            } else {
              return "must be sync, ssp:K (such as ssp:2) or async";
            }
            return std::nullopt;
          },
          [](const job& from) {
            return from.staleness == 0               ? "sync"
                   : from.staleness == any_staleness ? "async"
                                                     : fmt::format("ssp:{}", from.staleness);
          }};
}

codec test_fraction() {
  return {[](job& to, std::string_view text) -> setting_fault {
            const auto share = parse_number<double>(text);
            if (!share || !(*share >= 0 && *share < 1)) return "must be a number of at least 0 and below 1";
            to.test_fraction = *share;
            return std::nullopt;
          },
          [](const job& from) { return fmt::format("{}", from.test_fraction); }, setting_type::real};
}

codec optional_text(std::string job::*field, setting_type type) {
  return {[=](job& to, std::string_view text) -> setting_fault {
            if (text.empty()) return "must not be empty";
            to.*field = text;
            return std::nullopt;
          },
          [=](const job& from) { return (from.*field).empty() ? std::nullopt : std::optional(from.*field); }, type};
}

codec separator() {
  return {[](job& to, std::string_view text) -> setting_fault {
            if (text == "tab") text = "\t";
            if (!is_separator(text) || text == "\"")
              return fmt::format("must be tab, or {} or a quote", separator_limit);
            to.separator = text.front();
            return std::nullopt;
          },
          [](const job& from) { return from.separator == '\t' ? "tab" : std::string(1, from.separator); }};
}

// -- special spellings -----------------------------------------------------------------------------------------------

constexpr double id_skew_max = 10;
constexpr std::string_view zipf_prefix = "zipf:";

codec id_skew() {
  return {
      [](job& to, std::string_view text) -> setting_fault {
        if (text == "uniform") {
          to.id_skew = 0;
          return std::nullopt;
        }
        if (!text.starts_with(zipf_prefix)) return "must be uniform or zipf:S, such as zipf:1.1";
        auto refused = read_real(to.id_skew, text.substr(zipf_prefix.size()), id_skew_max, false);
        return refused ? setting_fault("the exponent " + *refused) : std::nullopt;
      },
      [](const job& from) { return from.id_skew == 0 ? "uniform" : fmt::format("{}{}", zipf_prefix, from.id_skew); }};
}

setting_fault read_widths(std::vector<std::size_t>& to, std::string_view text) {
  constexpr std::size_t layers_max = 64;
  constexpr std::uint64_t width_max = 65536;
  std::vector<std::size_t> widths;
  if (text != "none") {
    for (const auto part : split(text, ',')) {
      std::size_t width = 0;
      if (read_whole(width, part, 1, width_max) || widths.size() == layers_max)
        return fmt::format(
            "must be none, or up to {} whole numbers between 1 and {} with commas between them, such as 64,32",
            layers_max, width_max);
      widths.push_back(width);
    }
  }
  to = std::move(widths);
  return std::nullopt;
}

codec hidden_widths() {
  return {[](job& to, std::string_view text) { return read_widths(to.hidden, text); },
          [](const job& from) { return from.layers.empty() ? std::optional(widths_text(from.hidden)) : std::nullopt; },
          setting_type::widths};
}

codec layer_list() {
  return {[](job& to, std::string_view text) -> setting_fault {
            auto layers = nn::parse_layers(text);
            if (!layers) return std::move(layers.error().message);
            if (layers->empty()) return "must have at least 1 layer; leave it out for an MLP of --hidden";
            to.layers = std::move(*layers);
            return std::nullopt;
          },
          [](const job& from) { return from.layers.empty() ? std::nullopt : std::optional(nn::to_json(from.layers)); },
          setting_type::entries};
}

codec bottom_widths() {
  return {[](job& to, std::string_view text) { return read_widths(to.bottom_hidden.emplace(), text); },
          [](const job& from) {
            return from.bottom_hidden ? std::optional(widths_text(*from.bottom_hidden)) : std::nullopt;
          },
          setting_type::widths};
}

codec optimizer(optimizer_spec job::*field, optimizer_use use) {
  return {[=](job& to, std::string_view text) -> setting_fault {
            auto spec = parse_optimizer(text, use);
            if (!spec) return std::move(spec.error().message);
            (to.*field).options = spec->options;
            return std::nullopt;
          },
          [=](const job& from) { return to_string(from.*field); }};
}

codec schedule() {
  return {[](job& to, std::string_view text) -> setting_fault {
            auto parsed = parse_lr_schedule(text);
            if (!parsed) return std::move(parsed.error().message);
            to.dense_optimizer.schedule = *parsed;
            to.sparse_optimizer.schedule = std::move(*parsed);
            return std::nullopt;
          },
          [](const job& from) { return to_string(from.dense_optimizer.schedule); }};
}

// -- elastic jobs ----------------------------------------------------------------------------------------------------

codec elastic_range() {
  return {[](job& to, std::string_view text) -> setting_fault {
            const auto colon = std::min(text.find(':'), text.size());
            elasticity& made = to.elastic;
            if (colon == text.size() || read_whole(made.trainers_min, text.substr(0, colon), 1, actors_max) ||
                read_whole(made.trainers_max, text.substr(colon + 1), made.trainers_min, actors_max))
              return fmt::format("must be MIN:MAX, two whole numbers between 1 and {}, such as 1:8", actors_max);
            return std::nullopt;
          },
          [](const job& from) { return fmt::format("{}:{}", from.elastic.trainers_min, from.elastic.trainers_max); }};
}

namespace {

codec written_where(bool (*applies)(const job&), codec how) {
  return {std::move(how.read),
          [applies, write = std::move(how.write)](const job& from) {
            return applies(from) ? write(from) : std::optional<std::string>();
          },
          how.type};
}

}  // namespace

codec elastic_only(codec how) {
  return written_where([](const job& from) { return from.elastic.is_on(); }, std::move(how));
}

codec pipelined_only(codec how) {
  return written_where([](const job& from) { return from.pipeline > 1; }, std::move(how));
}

codec stage_begins() {
  return {[](job& to, std::string_view text) -> setting_fault {
            constexpr std::uint64_t layer_max = 65535;
            std::vector<std::size_t> begins;
            for (const auto part : split(text, ',')) {
              std::size_t layer = 0;
              if (read_whole(layer, part, 0, layer_max) || begins.size() == stages_max ||
                  (begins.empty() ? layer != 0 : layer <= begins.back()))
                return fmt::format("must be up to {} layer numbers that begin at 0 and rise, such as 0,3,5",
                                   stages_max);
              begins.push_back(layer);
            }
            to.stages = std::move(begins);
            return std::nullopt;
          },
          [](const job& from) {
            return from.stages.empty() ? std::nullopt : std::optional(fmt::format("{}", fmt::join(from.stages, ",")));
          },
          setting_type::widths};
}

codec memberships() {
  return {[](job& to, std::string_view text) -> setting_fault {
            auto parsed = parse_memberships(text);
            if (!parsed) return std::move(parsed.error().message);
            to.elastic.memberships = std::move(*parsed);
            return std::nullopt;
          },
          [](const job& from) { return to_string(from.elastic.memberships); }};
}

}  // namespace troupe::model::codecs
