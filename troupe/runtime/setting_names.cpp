#include "troupe/runtime/setting_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace troupe::runtime {

namespace {

/// A run's setting, by its name in jobs' checks or checkpoints, its option, and its field.
struct setting_name {
  const char* setting;
  const char* option;
  const char* field;
};

constexpr std::array all_names = {
    setting_name{"trainers", "trainers", "trainers"},
    setting_name{"trainers-of-run", "trainers", "trainers"},
    setting_name{"clip-norm", "clip-norm", "clip_norm"},
    setting_name{"run-clip-norm", "clip-norm", "clip_norm"},
    setting_name{"accumulate", "accumulate", "accumulate"},
    setting_name{"run-accumulate", "accumulate", "accumulate"},
    setting_name{"nan", "nan", "nan"},
    setting_name{"run-nan", "nan", "nan"},
    setting_name{"consistency", "consistency", "consistency"},
    setting_name{"run-consistency", "consistency", "consistency"},
};

/// Replaces an option's name wherever it is a whole word.
void replace_option(std::string& text, const std::string& option, const std::string& instead) {
  const auto is_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-'; };
  for (std::size_t at = 0; (at = text.find(option, at)) != text.npos;) {
    const std::size_t end = at + option.size();
    const bool is_whole = end == text.size() || !is_of_name(static_cast<unsigned char>(text[end]));
    if (is_whole) text.replace(at, option.size(), instead);
    at += is_whole ? instead.size() : option.size();
  }
}

}  // namespace

std::string with_source_names(std::string text, std::span<const std::string> own) {
  const auto is_own = [own](const std::string& name) { return std::ranges::find(own, name) != own.end(); };
  for (const setting_name& one : all_names)
    if (!is_own(one.setting))
      replace_option(text, std::string("--") + one.setting,
                     is_own(one.option) ? std::string("--") + one.option : one.field);
  return text;
}

}  // namespace troupe::runtime
