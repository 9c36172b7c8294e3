"""GloVe (Pennington et al., 2014): reference and training."""
