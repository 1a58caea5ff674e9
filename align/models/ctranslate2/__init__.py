"""Read folders of CTranslate2, as its converters write them and as Argos Translate packages them."""
