"""Stands in verl's trainer registry: builds SRPO's trainer when the configuration asks for it, else verl's own."""

ESTIMATOR = "srpo"


def _dispatcher(stock: type, mode: str) -> type:
    class Dispatcher(stock):
        def __new__(cls, config):
            if cls is not Dispatcher:  # somebody derived a trainer from what the registry holds
                return super().__new__(cls)
            if str(config.algorithm.adv_estimator) != ESTIMATOR:
                return stock(config)
            from verl_srpo.trainer.trainers import trainer_class

            return trainer_class(mode)(config)

    Dispatcher.__name__ = Dispatcher.__qualname__ = f"SRPOor{stock.__name__}"
    Dispatcher.__doc__ = f"SRPO's trainer for mode {mode!r} if algorithm.adv_estimator=srpo, else {stock.__name__}."
    Dispatcher.stock = stock
    return Dispatcher


def install_dispatchers(module=None) -> None:
    """Replaces every stock entry of verl's TRAINER_REGISTRY; entries that are dispatchers already stay."""
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    for mode, entry in list(TRAINER_REGISTRY.items()):
        if not hasattr(entry, "stock"):
            TRAINER_REGISTRY[mode] = _dispatcher(entry, mode)
