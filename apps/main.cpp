// The program `troupe`.

#include "troupe/program.hpp"

int main(int argc, char** argv) { return troupe::program(argc, argv); }
