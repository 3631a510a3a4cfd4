#include "tests/tidy/prose.hpp"

#include <cctype>

namespace troupe::tidy_test {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

}  // namespace

void prose::put(char c, std::size_t line) {
  const bool is_more_space = is_space(c) && (text_.empty() || is_space(text_.back()));
  if (is_more_space) return;
  text_ += is_space(c) ? ' ' : c;
  lines_.push_back(line);
}

void prose::put_break(std::size_t line) {
  if (!text_.empty() && text_.back() == '\n') return;
  text_ += '\n';
  lines_.push_back(line);
}

prose prose::of_document(const std::string& content) {
  prose made;
  std::size_t line = 1;
  bool is_blank = true;  // whether the line is blank so far
  for (const char c : content) {
    if (c == '\n' && is_blank) made.put_break(line);
    made.put(c, line);
    if (!is_space(c)) is_blank = false;
    if (c != '\n') continue;
    is_blank = true;
    ++line;
  }
  return made;
}

/// Walks through code and passes its comments and literals to `prose`.
class code_reader {
 public:
  explicit code_reader(const std::string& content) : content_(content) {}

  prose read() {
    while (at_ < content_.size()) {
      if (looks_at("//"))
        take_until("\n", false);
      else if (looks_at("/*"))
        take_until("*/", false);
      else if (looks_at("R\"") && (at_ == 0 || !is_word(content_[at_ - 1])))
        take_raw();
      else if (is_quote())
        take_quoted(content_[at_]);
      else
        pass_code();
    }
    return std::move(made_);
  }

 private:
  bool looks_at(std::string_view text) const { return content_.compare(at_, text.size(), text) == 0; }

  /// Excludes the digit separators of 1'000'000.
  bool is_quote() const {
    const char c = content_[at_];
    return c == '"' || c == '`' || (c == '\'' && (at_ == 0 || !is_word(content_[at_ - 1])));
  }

  void pass_code() {
    const char c = content_[at_++];
    if (c == '\n') ++line_;
    if (!is_space(c)) made_.put_break(line_);
  }

  void take() {
    made_.put(content_[at_], line_);
    if (content_[at_++] == '\n') ++line_;
  }

  void take_until(std::string_view end, bool is_text) {
    while (at_ < content_.size() && !looks_at(end)) {
      if (!is_text && content_[at_] == '/')
        ++at_;  // a slash of the comment's begin
      else
        take();
    }
    if (!is_text) made_.put(' ', line_);
    at_ += end.size();
    if (end == "\n") ++line_;
  }

  void take_raw() {
    const auto open = content_.find('(', at_);
    if (open == std::string::npos) return pass_code();
    const std::string end = ")" + content_.substr(at_ + 2, open - at_ - 2) + "\"";
    at_ = open + 1;
    take_until(end, true);
  }

  /// Takes the text up to the same quotation mark, or to the end of the line unless it is a template of JavaScript.
  void take_quoted(char mark) {
    ++at_;
    while (at_ < content_.size() && content_[at_] != mark && (mark == '`' || content_[at_] != '\n')) {
      if (content_[at_] == '\\') {
        made_.put(' ', line_);
        ++at_;
        if (at_ < content_.size() && content_[at_++] == '\n') ++line_;
        continue;
      }
      take();
    }
    if (at_ < content_.size() && content_[at_] == mark) ++at_;
  }

  const std::string& content_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  prose made_;
};

prose prose::of_code(const std::string& content) { return code_reader(content).read(); }

std::vector<std::size_t> prose::lines_with(std::string_view phrase) const {
  std::vector<std::size_t> all;
  std::string capital(phrase);
  capital.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(capital.front())));
  for (std::size_t at = 0; at + phrase.size() <= text_.size(); ++at) {
    const std::string_view here = std::string_view(text_).substr(at, phrase.size());
    if (here != phrase && here != capital) continue;
    const std::size_t end = at + phrase.size();
    const bool is_whole = (at == 0 || !is_word(text_[at - 1])) && (end == text_.size() || !is_word(text_[end]));
    if (is_whole) all.push_back(lines_[at]);
  }
  return all;
}

}  // namespace troupe::tidy_test
