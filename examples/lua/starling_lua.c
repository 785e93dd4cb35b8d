/* Starling for Lua 5.4: a module of userdata over the C interface, as much of it as lenet.lua needs.
 *   local starling = require "starling_lua" */
#include <lauxlib.h>
#include <lua.h>
#include <starling_c.h>

#define FIELDS 8

static void check(lua_State* lua, starling_status status) {
  if (status != STARLING_OK) luaL_error(lua, "%s", starling_error());
}

/* A userdata that holds a handle; its class frees it. The handle is written later, so that no error leaks it. */
static void** new_object(lua_State* lua, const char* class) {
  void** object = lua_newuserdatauv(lua, sizeof *object, 0);
  *object = NULL;
  luaL_setmetatable(lua, class);
  return object;
}

static void* handle(lua_State* lua, int at, const char* class) { return *(void**)luaL_checkudata(lua, at, class); }

#define CLASS(name)                                                                                          \
  static int free_##name(lua_State* lua) {                                                                   \
    void** object = luaL_checkudata(lua, 1, #name);                                                          \
    starling_##name##_free(*object);                                                                         \
    *object = NULL;                                                                                          \
    return 0;                                                                                                \
  }
CLASS(tensor)
CLASS(module)
CLASS(optimizer)
CLASS(step)
CLASS(function)
CLASS(loader)

static int push_tensors(lua_State* lua, starling_tensor** tensors, int count) {
  for (int i = 0; i < count; ++i) *new_object(lua, "tensor") = tensors[i];
  return count;
}

static int read_tensors(lua_State* lua, int from, starling_tensor** into) {
  const int count = lua_gettop(lua) - from + 1;
  luaL_argcheck(lua, count <= FIELDS, from, "too many tensors");
  for (int i = 0; i < count; ++i) into[i] = handle(lua, from + i, "tensor");
  return count;
}

static int lua_seed(lua_State* lua) {
  check(lua, starling_seed((uint64_t)luaL_checkinteger(lua, 1)));
  return 0;
}

static int lua_zoo(lua_State* lua) {
  const char* name = luaL_checkstring(lua, 1);
  const char* options = luaL_optstring(lua, 2, NULL);
  void** net = new_object(lua, "module");
  check(lua, starling_zoo(name, options, (starling_module**)net));
  return 1;
}

static int lua_optimizer(lua_State* lua) {
  const char* name = luaL_checkstring(lua, 1);
  starling_module* net = handle(lua, 2, "module");
  const char* options = luaL_optstring(lua, 3, NULL);
  void** rule = new_object(lua, "optimizer");
  check(lua, starling_optimizer_new(name, net, options, (starling_optimizer**)rule));
  return 1;
}

static int lua_step(lua_State* lua) {
  starling_module* net = handle(lua, 1, "module");
  starling_optimizer* rule = handle(lua, 2, "optimizer");
  const char* objective = luaL_checkstring(lua, 3);
  void** step = new_object(lua, "step");
  check(lua, starling_step_new(net, rule, objective, (starling_step**)step));
  return 1;
}

static int lua_compile(lua_State* lua) {
  starling_module* net = handle(lua, 1, "module");
  void** function = new_object(lua, "function");
  check(lua, starling_compile(net, (starling_function**)function));
  return 1;
}

static int lua_loader(lua_State* lua) {
  const char* source = luaL_checkstring(lua, 1);
  const char* split = luaL_checkstring(lua, 2);
  const int64_t batch = luaL_checkinteger(lua, 3);
  const int shuffle = lua_toboolean(lua, 4);
  void** loader = new_object(lua, "loader");
  check(lua, starling_loader_new(source, split, batch, 1, shuffle, (starling_loader**)loader));
  return 1;
}

/* op(name, attributes, tensors…) */
static int lua_op(lua_State* lua) {
  starling_tensor *in[FIELDS], *out[FIELDS];
  const int count = read_tensors(lua, 3, in);
  int made = 0;
  check(lua, starling_op(luaL_checkstring(lua, 1), in, count, luaL_optstring(lua, 2, NULL), out, FIELDS, &made));
  return push_tensors(lua, out, made);
}

static int next_fields(lua_State* lua) {
  starling_tensor* fields[FIELDS];
  int made = 0;
  check(lua, starling_loader_next(handle(lua, 1, "loader"), fields, FIELDS, &made));
  return push_tensors(lua, fields, made);
}

static int run_step(lua_State* lua) {
  starling_tensor* fields[FIELDS];
  const int count = read_tensors(lua, 2, fields);
  double loss = 0;
  check(lua, starling_step_run(handle(lua, 1, "step"), fields, count, &loss));
  lua_pushnumber(lua, loss);
  return 1;
}

static int run_function(lua_State* lua) {
  starling_tensor *in[FIELDS], *out[FIELDS];
  const int count = read_tensors(lua, 2, in);
  int made = 0;
  check(lua, starling_function_run(handle(lua, 1, "function"), in, count, out, FIELDS, &made));
  return push_tensors(lua, out, made);
}

static int tensor_item(lua_State* lua) {
  double value = 0;
  check(lua, starling_tensor_item(handle(lua, 1, "tensor"), &value));
  lua_pushnumber(lua, value);
  return 1;
}

static int tensor_rows(lua_State* lua) {
  int64_t rows = 1;
  int rank = 0;
  check(lua, starling_tensor_shape(handle(lua, 1, "tensor"), &rows, 1, &rank));
  lua_pushinteger(lua, rows);
  return 1;
}

static void add_class(lua_State* lua, const char* name, lua_CFunction release, const luaL_Reg* methods) {
  luaL_newmetatable(lua, name);
  lua_pushcfunction(lua, release);
  lua_setfield(lua, -2, "__gc");
  lua_newtable(lua);
  luaL_setfuncs(lua, methods, 0);
  lua_setfield(lua, -2, "__index");
  lua_pop(lua, 1);
}

int luaopen_starling_lua(lua_State* lua) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  static const luaL_Reg tensor[] = {{"item", tensor_item}, {"rows", tensor_rows}, {NULL, NULL}};
  static const luaL_Reg step[] = {{"run", run_step}, {NULL, NULL}};
  static const luaL_Reg function[] = {{"run", run_function}, {NULL, NULL}};
  static const luaL_Reg loader[] = {{"next", next_fields}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"seed", lua_seed},       {"zoo", lua_zoo},         {"optimizer", lua_optimizer},
                                       {"step", lua_step},       {"compile", lua_compile}, {"loader", lua_loader},
                                       {"op", lua_op},           {NULL, NULL}};
  add_class(lua, "tensor", free_tensor, tensor);
  add_class(lua, "module", free_module, none);
  add_class(lua, "optimizer", free_optimizer, none);
  add_class(lua, "step", free_step, step);
  add_class(lua, "function", free_function, function);
  add_class(lua, "loader", free_loader, loader);
  luaL_newlib(lua, functions);
  return 1;
}
