"""An MLP on the digits, and its training."""

import minigrad as mg


def mlp(device, dtype="float32"):
    mg.manual_seed(0)
    first = mg.nn.Linear(64, 128, device=device, dtype=dtype)
    return mg.nn.Sequential(first, mg.relu, mg.nn.Linear(128, 10, device=device, dtype=dtype))


def train(device, epochs, make_optimizer):
    model, digits = mlp(device), mg.data.digits()
    optimizer, losses = make_optimizer(model.parameters()), []
    for epoch in range(epochs):
        for x, labels in mg.data.batches(*digits.train, size=64, seed=epoch, device=device):
            optimizer.zero_grad()
            loss = mg.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    accuracy = mg.nn.accuracy(model(mg.tensor(digits.test.images, device=device)), digits.test.labels)
    return losses, accuracy
