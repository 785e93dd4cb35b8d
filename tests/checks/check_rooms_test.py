"""check_rooms.py on small trees, each with one fault: it must name the rule and the line, and pass the tree without it."""

import contextlib
import io
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_rooms.py"
sys.path.insert(0, str(SCRIPT.parent))

import check_rooms  # noqa: E402

README = """
| room | holds | may include |
|---|---|---|
| base | – | – |
| tensor | – | base |
| ops | – | tensor |
| kernels | – | ops |
| cli | – | all above |

**base** is first.
**tensor** is second.
**ops** is third: `def`.
**kernels** is fourth: `cpu/blocks`.
**cli** is last.
"""

README_WITH_DIST = README.replace("| cli |", "| dist train | – | kernels |\n| cli |") + "**dist** and\n**train** too.\n"

GOOD = {
    "src/starling/README.md": README,
    "src/starling/starling.h": '#include "starling/ops/add.h"\n',
    "src/starling/base/error.h": "#pragma once\n#ifdef NDEBUG\n#endif\n",
    "src/starling/tensor/tensor.h": '#include "starling/base/error.h"\n',
    "src/starling/ops/add.h": '#include "starling/base/error.h"\n#include "starling/tensor/tensor.h"\n',
    "src/starling/kernels/cuda/add.cu": "#include <cuda_runtime.h>\n#ifdef __CUDA_ARCH__\n#endif\n",
    "src/starling/cli/main.cpp": '#include "starling/starling.h"\n',
}


DEFINITIONS = """
  ops.add({.name = "matmul", .doc = "The product."});
  ops.add(unary("relu", "x where it is positive.", nullptr));
  ops.add(unary(
      "tanh", "The hyperbolic tangent.", nullptr));
  const OpDef& sum = named_op<"sum">();
  static const OpDef& mean = find_op("mean");
  ops.add({.name = "cast"});
"""
TABLE = """
bool is_nice(const OpDef& op) {
  static const std::set<std::string_view> names = {"matmul", "relu", "tanh",
                                                   "sum", "mean", "cast"};  // "not", "these"
  return names.contains(op.name);
}
"""


def write(folder: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run(changes: dict[str, str]) -> tuple[int, str]:
    output = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        write(folder, GOOD | changes)
        with mock.patch.object(sys, "argv", [str(SCRIPT), folder]), contextlib.redirect_stdout(output):
            status = check_rooms.main()
    return status, output.getvalue()


class CheckRooms(unittest.TestCase):
    def refuses(self, changes: dict[str, str], *expected: str) -> None:
        status, output = run(changes)
        self.assertEqual(status, 1, output)
        for text in expected:
            self.assertIn(text, output)

    def accepts(self, changes: dict[str, str]) -> str:
        status, output = run(changes)
        self.assertEqual(status, 0, output)
        return output

    def test_accepts_a_tree_in_order(self):
        self.assertIn("0 errors, 0 warnings", self.accepts({}))

    def test_the_script_ends_with_the_status_of_what_it_found(self):
        for changes, status in (({}, 0), ({"README.md": "line\n" * 151}, 1)):
            with tempfile.TemporaryDirectory() as folder:
                write(folder, GOOD | changes)
                done = subprocess.run([sys.executable, "-B", SCRIPT, folder], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                self.assertIn(f"rooms: {status} errors", done.stdout)

    def test_refuses_an_include_upward(self):
        self.refuses(
            {"src/starling/base/bad.h": '#pragma once\n#include "starling/tensor/tensor.h"\n'},
            "src/starling/base/bad.h:2: error [include-order] base may not include tensor",
        )

    def test_refuses_an_include_upward_in_angle_brackets(self):
        self.refuses({"src/starling/tensor/bad.h": "# include <starling/ops/add.h>\n"}, "tensor may not include ops")

    def test_refuses_a_room_nobody_knows(self):
        self.refuses({"src/starling/ops/bad.h": '#include "starling/cellar/wine.h"\n'}, "ops may not include cellar")

    def test_refuses_the_door_inside_a_room(self):
        self.refuses({"src/starling/ops/bad.h": '#include "starling/starling.h"\n'}, "ops may not include the door")

    def test_refuses_a_second_definition_of_a_type_in_one_namespace(self):
        text = "#pragma once\nnamespace starling {{\nstruct {} {{\n}};\n}}  // namespace starling\n"
        first = {"src/starling/base/one.h": text.format("Job")}
        self.refuses(
            first | {"src/starling/tensor/two.h": text.format("Job")},
            "src/starling/tensor/two.h:3: error [second-definition] starling::Job is defined at src/starling/base/one.h:3",
        )
        self.accepts(first | {"src/starling/tensor/two.h": text.format("Task")})
        self.accepts(first | {"src/starling/tensor/two.h": text.format("Job").replace("starling", "starling::tensor")})

    def test_refuses_kernels_in_a_file_without_the_name_of_a_family(self):
        family = {"src/starling/ops/families/pool.cpp": "", "src/starling/README.md": README_WITH_DIST}
        for folder in ("kernels/cpu/families", "kernels/cuda/families", "dist/families", "train/families"):
            self.refuses(
                family | {f"src/starling/{folder}/pools.cpp": ""},
                f"src/starling/{folder}/pools.cpp:1: error [family-stem] no family ops/families/pools.cpp",
            )
            self.refuses(family | {f"src/starling/{folder}/helpers.h": ""}, f"src/starling/{folder}/helpers.h:1: error [family-stem]")
            self.accepts(family | {f"src/starling/{folder}/pool.cpp": ""})

    def test_refuses_a_kernel_in_the_file_of_another_family(self):
        ops = {
            "src/starling/ops/families/pool.cpp": 'ops.add({.name = "max_pool",\n',
            "src/starling/ops/families/avg_pool.cpp": 'ops.add(avg_op("avg_pool", "The mean of each window."));\n',
            "src/starling/ops/families/comm.cpp": 'check(reduce == "max_pool", "[comm] expected a sum");\n',
        }
        cpu = "src/starling/kernels/cpu/families"
        added = 'void register_cpu_pool(KernelTable& table) {{\n  table.add("max_pool", DeviceKind::cpu, {{"rows", Accepts::all, plan}});\n{}}}\n'
        refused = f"{cpu}/pool.cpp:3: error [family-stem] avg_pool is defined in ops/families/avg_pool.cpp"
        for line in (
            '  table.add("avg_pool", DeviceKind::cpu, plan);\n',
            '  add_norm(table, "avg_pool");\n',
            '  add("avg_pool", Accepts::strided, plan);\n',
            '  for (const char* op : {"avg_pool", "max_pool"}) add(op, plan);\n',
        ):
            self.refuses(ops | {f"{cpu}/pool.cpp": added.format(line)}, refused)
        for line in (
            '  table.add("max_pool", DeviceKind::cpu, {"avg_pool", Accepts::all, plan});\n',  # the name of a kernel
            '  // add("avg_pool", plan);\n',
            '  add("max_" + name, plan);\n',
        ):
            self.accepts(ops | {f"{cpu}/pool.cpp": added.format(line)})
        self.accepts(ops | {f"{cpu}/pool.cpp": 'Plan plan() { find_op("avg_pool"); }\n' + added.format("")})

    def test_accepts_the_one_kernel_of_all_elementwise_families(self):
        ops = {"src/starling/ops/families/unary.cpp": '.name = "neg"\n'}
        for name in ("elementwise", "view_ops"):
            added = f'void register_cpu_{name}(KernelTable& table) {{\n  add(table, "neg");\n}}\n'
            self.accepts(ops | {f"src/starling/kernels/cpu/families/{name}.cpp": added})

    def test_accepts_an_include_in_a_comment(self):
        self.accepts({"src/starling/base/good.h": '// #include "starling/ops/add.h"\n/*\n#include "starling/ops/add.h"\n*/\n'})

    def test_refuses_a_conditional_on_an_optional_part(self):
        for line in ("#ifdef STARLING_CUDA", "#if defined(STARLING_HAS_MPI)", "#ifndef USE_NCCL", "#if A && \\\n  __CUDACC__"):
            self.refuses({"src/starling/ops/bad.cpp": f"\n{line}\n#endif\n"}, "src/starling/ops/bad.cpp:2: error [optional-part]")

    def test_refuses_a_conditional_on_an_optional_part_in_tests(self):
        self.refuses({"tests/ops/bad_test.cpp": "#ifdef STARLING_CUDA\n#endif\n"}, "tests/ops/bad_test.cpp:1")

    def test_refuses_a_conditional_in_the_folder_of_another_part(self):
        self.refuses({"src/starling/kernels/cuda/bad.cpp": "#ifdef STARLING_MPI\n#endif\n"}, "a conditional on mpi")

    def test_refuses_the_headers_of_an_optional_part(self):
        self.refuses({"src/starling/kernels/bad.cpp": "#include <cuda_runtime.h>\n"}, "<cuda_runtime.h> belongs into")

    def test_accepts_words_that_only_contain_the_name_of_a_part(self):
        self.accepts({"src/starling/ops/good.cpp": "#if defined(COMPILED_HERE)\n#endif\n"})

    def test_refuses_a_room_without_a_paragraph(self):
        self.refuses({"src/starling/README.md": README.replace("**ops** is third: `def`.", "")}, '[room-paragraph] no paragraph', "**ops**")

    def test_refuses_a_room_without_a_row(self):
        self.refuses({"src/starling/attic/box.h": "#pragma once\n"}, "no row for the room attic")

    def refuses_a_table(self, file: str, text: str) -> None:
        self.refuses(
            {"src/starling/ops/families/all.cpp": DEFINITIONS, file: text}, f"{file}:3: error [op-table] a list of 6 ops (matmul, relu"
        )

    def accepts_a_table(self, file: str, text: str) -> None:
        self.accepts({"src/starling/ops/families/all.cpp": DEFINITIONS, file: text})

    def test_refuses_a_table_of_ops(self):
        self.refuses_a_table("src/starling/cli/bad.cpp", TABLE)

    def test_refuses_a_table_from_ops_to_something(self):
        rows = re.sub(r'"(\w+)"(?=[,}])', r'{"\1", 1}', TABLE)
        self.refuses_a_table("src/starling/kernels/bad.cpp", rows)

    def test_accepts_a_table_where_ops_are_defined_and_where_their_kernels_are(self):
        for folder in ("ops/def", "kernels/cpu/families", "kernels/cpu/blocks"):
            self.accepts_a_table(f"src/starling/{folder}/all.cpp", TABLE)

    def test_accepts_a_table_of_ops_in_tests(self):
        self.accepts_a_table("tests/ops/good_test.cpp", TABLE)

    def test_refuses_a_table_of_three_ops(self):
        few = TABLE.replace('"mean", "cast"', "").replace('"tanh",', '"tanh"').replace('"sum",', "")
        changes = {"src/starling/ops/families/all.cpp": DEFINITIONS}
        refused = "src/starling/cli/bad.cpp:3: error [op-table] a list of 3 ops (matmul, relu, tanh, ...)"
        self.refuses(changes | {"src/starling/cli/bad.cpp": few}, refused)
        self.accepts_a_table("src/starling/cli/good.cpp", few.replace('"relu", ', ""))
        with mock.patch.dict(check_rooms.NO_TABLES, {"src/starling/cli/good.cpp": "names of commands"}):
            self.accepts_a_table("src/starling/cli/good.cpp", few)

    def test_refuses_a_name_compared_with_those_of_several_ops(self):
        line = 'bool f(const std::string& name) {{ return name {0} "relu" {1} other() {1} name {0} "{2}"; }}\n'
        changes = {"src/starling/ops/families/all.cpp": DEFINITIONS}
        for equal, either in (("==", "||"), ("!=", "&&")):
            bad = changes | {"src/starling/cli/bad.cpp": line.format(equal, either, "tanh")}
            self.refuses(bad, "src/starling/cli/bad.cpp:1: error [op-table] a name compared with those of 2 ops (relu and tanh)")
            self.accepts(changes | {"src/starling/cli/good.cpp": line.format(equal, either, "median")})
        self.accepts(changes | {"src/starling/ops/def/good.cpp": line.format("==", "||", "tanh")})

    def test_every_exemption_from_the_rule_of_tables_is_needed(self):
        tree, ops = SCRIPT.parent.parent, check_rooms.read_op_names(SCRIPT.parent.parent)
        for name in check_rooms.NO_TABLES:
            text = (tree / name).read_text(encoding="utf-8")
            with mock.patch.object(check_rooms, "NO_TABLES", {}):
                self.assertNotEqual(list(check_rooms.check_op_table(pathlib.Path(name), text, ops)), [], name)

    def test_accepts_words_that_are_no_ops(self):
        self.accepts_a_table("src/starling/cli/good.cpp", re.sub(r'"(\w+)"', r'"no_\1"', TABLE.replace('"matmul", "relu"', "")))

    def test_accepts_rules_that_match_ops(self):
        rows = re.sub(r'"(\w+)"(?=[,}])', r'{"\1", "of \1", rewrite}', TABLE)
        self.accepts_a_table("src/starling/kernels/rules.cpp", rows)

    def refuses_entries(self, entry: str) -> None:
        file = "src/starling/kernels/cuda/codes.cpp"
        lines = "".join(f"  {entry.format(op)}\n" for op in ("matmul", "relu", "tanh", "sum", "mean", "cast"))
        changes = {"src/starling/ops/families/all.cpp": DEFINITIONS, file: f"void build() {{\n{lines}}}\n"}
        self.refuses(changes, f"{file}:2: error [op-table] entries for 6 ops (matmul, relu")
        for name in ("mean", "sum", "cast", "tanh"):
            lines = lines.replace(f'"{name}"', f'"no_{name}"')
        self.accepts(changes | {file: f"void build() {{\n{lines}}}\n"})

    def test_refuses_entries_of_a_table_one_by_one(self):
        self.refuses_entries('codes["{}"] = {{1, "c0 = 1;"}};')
        self.refuses_entries('codes.emplace("{}", 1);')
        self.refuses_entries('codes.insert({{"{}", 1}});')

    def test_accepts_ops_named_one_by_one_in_a_function(self):
        lines = "".join(f'  emit("{op}");\n' for op in ("matmul", "relu", "tanh", "sum", "mean", "cast"))
        self.accepts_a_table("src/starling/kernels/good.cpp", f"void build() {{\n{lines}}}\n")

    def test_refuses_a_door_that_leads_to_kernels(self):
        line = '#include "starling/kernels/kernel.h"\n'
        rooms = README.replace("| tensor | – | base |", "| kernels tensor | – | base |").replace("| kernels | – | ops |\n", "")
        changes = {"src/starling/README.md": rooms, "src/starling/ops/add.h": GOOD["src/starling/ops/add.h"] + line}
        self.refuses(changes, "ops/add.h:3: error [door] starling.h shows users starling/kernels/kernel.h")

    def test_refuses_the_door_for_training_to_lead_to_kernels_attributes_and_gradients(self):
        text = "#pragma once\nnamespace starling {\nstruct PadAttrs {\nTensor pad_backward(const Tensor& dy);\n}  // namespace starling\n"
        rooms = {"src/starling/kernels/kernel.h": "#pragma once\n", "src/starling/ops/pad.h": text}
        self.accepts(rooms)
        through = {"src/starling/training.h": '#include "starling/starling.h"\n#include "starling/ops/pad.h"\n'}
        self.refuses(rooms | through, "ops/pad.h:3: error [door] training.h shows users PadAttrs", "ops/pad.h:4: error [door] training.h")
        through = {"src/starling/training.h": '#include "starling/starling.h"\n#include "starling/kernels/kernel.h"\n'}
        self.refuses(rooms | through, "training.h:2: error [door] training.h shows users starling/kernels/kernel.h")

    def test_refuses_a_comment_that_begins_with_a_pronoun(self):
        for word in ("What is", "Those of", "Its owner", "Nobody"):
            code = f"int a = 1;  // that of b\n  // {word} nice.\nint b = 2;\n"
            self.refuses({"src/starling/base/bad.h": code}, f'bad.h:2: error [pronoun] a comment that begins with "{word.split()[0]}"')

    def test_accepts_a_pronoun_within_a_comment_and_words_that_begin_like_one(self):
        code = "// Number of\n// This many.\nint a = 1;\n// Itself first.\n"
        self.accepts({"src/starling/base/good.h": code, "tests/base/good_test.cpp": code})

    def test_refuses_a_comment_of_a_header_that_leans_on_the_line_above(self):
        for word in ("Both", "Same", "The same", "As above", "All of them", "Is", "How it", "Of", "Each returns one"):
            code = f"int a();\n// {word} with b.\nint b();\n"
            begins = word.replace(" returns one", "")
            refused = f'bad.h:2: error [pronoun] a comment that begins with "{begins}"'
            self.refuses({"src/starling/base/bad.h": code}, refused)
            self.accepts({"src/starling/base/good.cpp": code, "tests/base/good.h": code})
        code = "// How a run ends.\nint a();\n// All runs.\nint b();\n// The same run in f64.\nint c();\n// As a() with b.\nint d();\n"
        self.accepts({"src/starling/base/good.h": code})

    def test_refuses_a_comment_of_a_header_that_leaves_open_who_is_meant(self):
        for line in ("// Number of calls. Nobody waits.", "int a();  // for whoever asks", "void f() {  // told to everyone"):
            code, word = f"\n{line}\n", re.search("Nobody|whoever|everyone", line)[0]
            self.refuses({"src/starling/base/bad.h": code}, f'bad.h:2: error [pronoun] a comment of a header that says "{word}"')
            self.accepts({"src/starling/base/good.cpp": code, "tests/base/good.h": code})
        self.accepts({"src/starling/base/good.h": 'auto a = "nobody";  // a name\n// Each layer, of any kind.\nint f();\n'})

    def test_refuses_a_pronoun_at_the_end_of_a_line(self):
        for line in ("int a = 1;  // whose size it is", "enum { a,  // it is first", "void f() {  // their way"):
            code = f"\n{line}\n"
            self.refuses({"src/starling/base/bad.cpp": code}, "bad.cpp:2: error [pronoun]")
            self.accepts({"tests/base/good_test.cpp": code})
        self.accepts({"src/starling/base/good.cpp": 'int a = 1;  // size of it\nauto b = "{}  // its";\n'})

    def test_refuses_a_test_named_by_a_pronoun(self):
        for name in ("WhatIsSentArrives", "TheirNumberIsBounded"):
            self.refuses({"tests/base/bad_test.cpp": f"\nTEST_F(Peers, {name}) {{}}\n"}, f"bad_test.cpp:2: error [pronoun] a test named {name}")
        for name in ("IsBounded", "ThatDieAreNamed", "WhateversAreKept"):
            self.accepts({"tests/base/good_test.cpp": f"TEST(Peers, {name}) {{}}\n"})

    def test_refuses_a_shelf_without_a_word(self):
        shelf = {"src/starling/ops/cellar/wine.h": "#pragma once\n"}
        self.refuses(shelf, "[shelf-paragraph] no word about `ops/cellar` in the paragraph of ops")
        self.refuses(shelf | {"src/starling/README.md": README.replace("second", "`cellar`")}, "no word about `ops/cellar`")
        for told in ("`cellar`", "`cellar/`", "`ops/cellar`"):
            self.accepts(shelf | {"src/starling/README.md": README.replace("third", told)})
        self.accepts(shelf | {"src/starling/ops/cellar.cpp": ""})
        self.accepts({"src/starling/tensor/cuda/wine.h": "#pragma once\n", "src/starling/ops/families/wine.cpp": ""})

    def test_refuses_a_long_readme(self):
        self.refuses({"README.md": "line\n" * 151}, "README.md:151: error [long-readme] 151 lines")
        self.accepts({"README.md": "line\n" * 150})

    def test_refuses_a_door_that_leads_to_attributes_and_gradients(self):
        text = "#pragma once\nnamespace {} {{\n{}\n}}  // namespace {}\n"
        for line in ("struct PadAttrs {", "Tensor pad_backward(const Tensor& dy);"):
            bad = text.format("starling", line, "starling")
            self.refuses({"src/starling/ops/add.h": bad}, "src/starling/ops/add.h:3: error [door] starling.h shows users")
            self.accepts({"src/starling/ops/hidden.h": bad})
            self.accepts({"src/starling/ops/add.h": text.format("starling::op", line, "starling::op")})

    def test_refuses_errno_beside_the_call_that_sets_it(self):
        for text in ("std::strerror(errno)", "errno_text()", "name, zmq_strerror(zmq_errno())"):
            source = f'void f() {{\n  check(::pipe2(ends, 0) == 0, "[x] a, (b) {{}}",\n        {text});\n}}\n'
            self.refuses({"src/starling/base/f.cpp": source}, "base/f.cpp:2: error [stale-errno]")

    def test_accepts_errno_after_the_call(self):
        source = """
// check(call(), "{}", errno_text());
void f() {
  const int fd = ::open("call(", 0);
  check(fd >= 0, "[x] {}", errno_text());
  check(static_cast<bool>(fd), "[x] {}", std::strerror(errno));
  check(found || zmq_errno() == EINTR, "[x] {}", zmq_strerror(zmq_errno()));
  check(call(), "[x] errno {}", name(fd));
  if (!call()) fail("[x] {}", errno_text());
}
"""
        self.accepts({"src/starling/base/f.cpp": source})

    def test_warns_of_a_long_file(self):
        self.assertIn("base/long.h:501: warning [long-file]", self.accepts({"src/starling/base/long.h": "//\n" * 501}))


if __name__ == "__main__":
    unittest.main()
