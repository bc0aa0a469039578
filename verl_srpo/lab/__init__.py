"""A small cooperative token game, trained with ``verl_srpo.core`` alone, on which SRPO's claims can be checked."""
