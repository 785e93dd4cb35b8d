-- LeNet from Lua: lua5.4 lenet.lua [SOURCE] [STEPS], with starling_lua.so on package.cpath.
local starling = require "starling_lua"
local source, steps = arg[1] or "name: fashion_mnist", tonumber(arg[2] or 300)

starling.seed(1)
local net = starling.zoo("lenet", "classes: 10")
local step = starling.step(net, starling.optimizer("adam", net, "lr: 0.001"), "classify")

local train, loss, done = starling.loader(source, "train", 64, true), 0, 0
while done < steps do
  local images, labels = train:next()
  if images then -- nothing: the next epoch begins
    loss = step:run(images, labels)
    done = done + 1
  end
end

local predict, test, right, all = starling.compile(net), starling.loader(source, "test", 500, false), 0, 0
for images, labels in function() return test:next() end do
  local best = starling.op("argmax", "axes: [1]", (predict:run(images)))
  local same = starling.op("cast", "dtype: f64", (starling.op("equal", "", best, labels)))
  right = right + starling.op("sum", "", same):item()
  all = all + labels:rows()
end
print(string.format("loss %.3f, accuracy %.3f", loss, right / all))

local refused, text = pcall(starling.zoo, "lenett")
assert(not refused and text:find("lenet"), text)
